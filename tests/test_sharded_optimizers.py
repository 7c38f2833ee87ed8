"""Optimizers of DTensors: fully sharded models, and parameters placed in every other way, step as torch.optim's do."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.distributed._functional_collectives import AsyncCollectiveTensor

from tests import sharded
from tests.optimizers import OURS, THEIRS, make, parameters
from tests.sharded import CHECKS, assert_same, check, distributed, loss, model, partial, placed, whole

#: Placements, and the shape of the mesh: a 0 is as long as the world. The last parameter is a plain tensor.
PLACES: tuple[tuple[Any, ...], ...] = (("0",), ("1",), ("R",), ("R0", 1, 0), ("01", 0, 1), ("1R", 0, 1))
SOME = ("SGD", "SGD nesterov", "SGD dampening", "Adam amsgrad", "AdamW")
ADAM: dict[str, Any] = {"lr": 0.1, "weight_decay": 0.1}


def leaves(seed: int = 0) -> list[Tensor]:
    tensors = [tensor.detach() for tensor in parameters(*[(4, 3)] * (len(PLACES) + 1), seed=seed)]
    return [placed(one, *place).requires_grad_() for one, place in zip(tensors, PLACES, strict=False)] + [
        tensors[-1].requires_grad_()
    ]


def give(params: list[Tensor], number: int) -> None:
    for index, param in enumerate(params):
        generator = torch.Generator().manual_seed(100 * number + index)
        grad = torch.randn(param.shape, generator=generator)
        param.grad = placed(grad, *PLACES[index]) if index < len(PLACES) else grad


def fully_sharded(optimizer: Any, layers: nn.Module, steps: int, first: int = 0) -> None:
    for number in range(first, first + steps):
        loss(layers, number).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()


@contextmanager
def raises(text: str) -> Iterator[None]:
    with pytest.raises((ValueError, RuntimeError), match=text):
        yield


@check
def a_fully_sharded_model() -> None:
    for kind in SOME:
        ours, theirs = model(), model()
        for library, layers in ((OURS, ours), (THEIRS, theirs)):
            fully_sharded(make(library, kind, layers.parameters()), layers, 10)
        assert_same(ours.parameters(), theirs.parameters(), tolerance=3e-6)


@check
def placements_meshes_and_plain_tensors_mixed() -> None:
    for kind in SOME:
        params, others = leaves(), [whole(param).clone().requires_grad_() for param in leaves()]
        ours, theirs = make(OURS, kind, params), make(THEIRS, kind, others)
        for number in range(10):
            give(params, number)
            for param, other in zip(params, others, strict=True):
                other.grad = whole(param.grad)  # type: ignore[arg-type]
            if number in (2, 5):
                params[1].grad = others[1].grad = params[-1].grad = others[-1].grad = None
            ours.step()
            theirs.step()
        assert_same(params, others, tolerance=3e-6)
        for mine, other in zip(params, others, strict=True):
            for name in ("exp_avg", "momentum_buffer"):
                if ours.state[mine].get(name) is not None:
                    assert type(ours.state[mine][name]) is type(mine.detach())
                    assert_same([ours.state[mine][name]], [theirs.state[other][name]], tolerance=3e-6)


@check
def gradients_placed_otherwise() -> None:
    grad = torch.arange(12.0).reshape(4, 3)
    for place in ("0", "1", "R"):
        for make_grad in (lambda: placed(grad, "R"), lambda: placed(grad, "1"), lambda: partial(grad)):
            param = placed(torch.ones(4, 3), place).requires_grad_()
            optimizer: Any = syncfree.SGD([param], lr=0.1)
            param.grad = make_grad()  # type: ignore[no-untyped-call]
            optimizer.step()
            assert_same([param], [1 - 0.1 * grad])
            assert_same([param.grad], [grad])


@check
def a_gradient_on_another_mesh_is_refused() -> None:
    param = placed(torch.ones(4, 3), "0").requires_grad_()
    optimizer = syncfree.AdamW([("weight", param)])
    param.grad = placed(torch.ones(4, 3), "0R", 0, 1)
    with raises("the gradient of weight is placed as .*give it a DTensor on the same mesh"):
        optimizer.step()
    assert_same([param], [torch.ones(4, 3)])


@check
def a_parameter_that_is_a_pending_sum_is_refused() -> None:
    param = partial(torch.ones(4, 3)).requires_grad_()
    optimizer = syncfree.AdamW([param])
    param.grad = partial(torch.ones(4, 3))
    with raises(r"param_groups\[0\]\['params'\]\[0\] is placed as .*Partial.*redistribute it to Replicate\(\)"):
        optimizer.step()


@check
def a_gradient_that_a_collective_still_computes() -> None:
    param = placed(torch.ones(4, 3), "R").requires_grad_()
    optimizer = syncfree.SGD([param], lr=0.1)
    grad = placed(torch.ones(4, 3), "R")
    grad._local_tensor = AsyncCollectiveTensor(grad._local_tensor)  # type: ignore[attr-defined]
    param.grad = grad
    optimizer.step()
    assert_same([param], [torch.full((4, 3), 0.9)])


@check
def a_stale_backward_raises() -> None:
    for place in PLACES:
        param = placed(torch.ones(4, 3), *place).requires_grad_()
        optimizer: Any = syncfree.AdamW([param])
        stale = (param * param).sum()
        param.grad = placed(torch.ones(4, 3), *place)
        optimizer.step()
        versions = [optimizer.state[param][name]._version for name in ("exp_avg", "exp_avg_sq")]
        optimizer.step(found_inf=torch.ones(()))
        assert [optimizer.state[param][name]._version for name in ("exp_avg", "exp_avg_sq")] > versions
        with raises("modified by an inplace operation"):
            stale.backward()  # type: ignore[no-untyped-call]


@check
def checkpoints_travel_both_ways() -> None:
    for kind in ("SGD momentum", "Adam amsgrad", "AdamW"):
        for before, after in ((OURS, THEIRS), (THEIRS, OURS), (OURS, OURS)):
            layers, others = model(), model()
            first, second = make(before, kind, layers.parameters()), make(THEIRS, kind, others.parameters())
            fully_sharded(first, layers, 4)
            fully_sharded(second, others, 4)
            resumed = make(after, kind, layers.parameters())
            resumed.load_state_dict(first.state_dict())
            fully_sharded(resumed, layers, 4, first=4)
            fully_sharded(second, others, 4, first=4)
            assert_same(layers.parameters(), others.parameters(), tolerance=3e-6)


@check
def checkpoints_of_torch_distributed() -> None:
    package = distributed.checkpoint.state_dict
    for full in (False, True):
        options = package.StateDictOptions(full_state_dict=full)
        for before, after in ((OURS, THEIRS), (THEIRS, OURS)):
            layers, others = model(), model()
            first, second = before["AdamW"](layers.parameters(), **ADAM), THEIRS["AdamW"](others.parameters(), **ADAM)
            fully_sharded(first, layers, 4)
            fully_sharded(second, others, 8)
            saved = package.get_optimizer_state_dict(layers, first, options=options)
            resumed = after["AdamW"](layers.parameters(), **ADAM)
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


@pytest.mark.usefixtures("world_of_one", "one_thread")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKS[__name__])
def test_in_a_world_of_one(name: str) -> None:
    CHECKS[__name__][name]()


@pytest.mark.parametrize("name", CHECKS[__name__])
def test_in_a_world_of_two(name: str) -> None:
    assert [results[f"{__name__}.{name}"] for results in sharded.results_of_two()] == ["", ""]
