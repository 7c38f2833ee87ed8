"""State: checkpoints in both directions, and shards that are replaced between steps."""

import copy
from itertools import product
from typing import Any

import torch
from polycast import syncfree

from tests.support.optimizers import OURS, THEIRS, make
from tests.support.sharded.models import assert_same, fully_sharded, leaves, model, placed
from tests.support.sharded.world import check, distributed

ADAM: dict[str, Any] = {"lr": 0.1, "weight_decay": 0.1}


@check
def checkpoints_travel_both_ways() -> None:
    """By state_dict, and by torch.distributed's functions, which save shards or the whole."""
    package = distributed.checkpoint.state_dict
    ways = [None, *[package.StateDictOptions(full_state_dict=full) for full in (False, True)]]
    for kind, options in product(("SGD momentum", "Adam amsgrad", "AdamW"), ways):
        for before, after in ((OURS, THEIRS), (THEIRS, OURS), (OURS, OURS)):
            layers, others = model(), model()
            first, second = make(before, kind, layers.parameters()), make(THEIRS, kind, others.parameters())
            fully_sharded(first, layers, 4)
            fully_sharded(second, others, 8)
            resumed = make(after, kind, layers.parameters())
            if options is None:
                resumed.load_state_dict(first.state_dict())
            else:
                saved = package.get_optimizer_state_dict(layers, first, options=options)
                package.set_optimizer_state_dict(layers, resumed, saved, options=options)
            fully_sharded(resumed, layers, 4, first=4)
            assert_same(layers.parameters(), others.parameters(), tolerance=3e-6)


@check
def fused_state_and_steps_that_are_dtensors() -> None:
    params, others = leaves()[:3], leaves()[:3]
    first, second = torch.optim.AdamW(others, fused=True), syncfree.AdamW(params)
    for param, other in zip(params, others, strict=True):
        param.grad, other.grad = torch.ones_like(param).detach(), torch.ones_like(other).detach()
    first.step()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for param, other in zip(params, others, strict=True):
        param.detach().copy_(other)
    first.step()
    second.step()
    for values in second.state.values():
        values["step"] = placed(values["step"], "R")
        values["exp_avg"] = values["exp_avg"].redistribute(placements=[distributed.tensor.Replicate()])
    first.step()
    second.step()
    assert_same([values["step"] for values in second.state.values()], [torch.tensor(3.0)] * 3)
    for param, other in zip(params, others, strict=True):
        assert_same([second.state[param]["exp_avg"]], [first.state[other]["exp_avg"]])


@check
def shards_that_are_replaced() -> None:
    param = placed(torch.ones(4, 3), "0").requires_grad_()
    optimizer: Any = syncfree.AdamW([param], **ADAM)
    other = torch.ones(4, 3).requires_grad_()
    reference = torch.optim.AdamW([other], **ADAM)
    for number in range(4):
        param.grad, other.grad = placed(torch.ones(4, 3), "0"), torch.ones(4, 3)
        if number == 1:
            param._local_tensor = param._local_tensor.clone() * 2  # type: ignore[attr-defined]
            other.data = other.data * 2
        if number == 2:
            average: Any = optimizer.state[param]["exp_avg"]
            average._local_tensor = average._local_tensor * 3
            reference.state[other]["exp_avg"] *= 3
        optimizer.step()
        reference.step()
        assert_same([param], [other])


@check
def a_module_that_changes_its_type() -> None:
    layers, others = model(), model()
    ours, theirs = syncfree.AdamW(layers.parameters(), **ADAM), torch.optim.AdamW(others.parameters(), **ADAM)
    for optimizer, module in ((ours, layers), (theirs, others)):
        fully_sharded(optimizer, module, 2)
        module.double().float()
        module.load_state_dict({name: value * 1.5 for name, value in module.state_dict().items()})
        fully_sharded(optimizer, module, 2, first=2)
    assert_same(layers.parameters(), others.parameters(), tolerance=3e-6)


@check
def state_in_another_type() -> None:
    layers, others = model(), model()
    ours = syncfree.AdamW(layers.parameters(), **ADAM, state_dtype=torch.float64)
    theirs = torch.optim.AdamW(others.parameters(), **ADAM)
    fully_sharded(ours, layers, 4)
    fully_sharded(theirs, others, 4)
    ours.load_state_dict(ours.state_dict())
    fully_sharded(ours, layers, 2)
    fully_sharded(theirs, others, 2)
    assert_same(layers.parameters(), others.parameters(), tolerance=1e-5)
    assert {values["exp_avg"].dtype for values in ours.state.values()} == {torch.float64}
