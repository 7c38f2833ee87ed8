"""Optimizer steps and state for fully sharded models and other DTensors, compared with ``torch.optim``."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from polycast import syncfree
from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor

from tests.support.optimizers import OURS, THEIRS, make
from tests.support.sharded.models import PLACES, assert_same, give, leaves, model, partial, placed, train, whole
from tests.support.sharded.world import distributed, rank

pytestmark = pytest.mark.usefixtures("on_both_ranks")
ADAM: dict[str, Any] = {"lr": 0.1, "weight_decay": 0.1}
GRAD = torch.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize("kind", ["SGD", "SGD nesterov", "SGD dampening", "Adam amsgrad", "AdamW"])
def test_mixed_placements_meshes_and_plain_tensors(kind: str) -> None:
    params, others = leaves(), [whole(param).clone().requires_grad_() for param in leaves()]
    ours, theirs = make(OURS, kind, params), make(THEIRS, kind, others)
    for number in range(6):
        give(params, number)
        for param, other in zip(params, others, strict=True):
            other.grad = whole(param.grad)
        if number in (2, 4):
            params[1].grad = others[1].grad = params[-1].grad = others[-1].grad = None
        ours.step()
        theirs.step()
    assert_same(params, others, tolerance=3e-6)
    for mine, other in zip(params, others, strict=True):
        for name in {"exp_avg", "momentum_buffer"} & {*ours.state[mine]}:
            if ours.state[mine][name] is not None:
                assert type(ours.state[mine][name]) is type(mine.detach())
                assert_same([ours.state[mine][name]], [theirs.state[other][name]], tolerance=3e-6)


def pending() -> Any:
    """Return a gradient that PyTorch treats as the result of an unfinished collective."""
    result = placed(GRAD, "R")
    result._local_tensor = AsyncCollectiveTensor(result._local_tensor)
    return result


GRADS: dict[str, Callable[[], Any]] = {
    "replicated": lambda: placed(GRAD, "R"),
    "by columns": lambda: placed(GRAD, "1"),
    "a sum": lambda: partial(GRAD * (2.0 if rank() == 0 else -1.0)),
    "pending": pending,
}


@pytest.mark.parametrize("place", ["0", "1", "R"])
@pytest.mark.parametrize("grad", GRADS)
def test_gradients_are_redistributed_to_the_placement_of_the_parameter(grad: str, place: str) -> None:
    param = placed(torch.ones(4, 3), place).requires_grad_()
    param.grad = GRADS[grad]()
    syncfree.SGD([param], lr=0.1).step()
    assert_same([param, param.grad], [1 - 0.1 * GRAD, GRAD])


def test_a_gradient_on_another_mesh_raises() -> None:
    """If the meshes differ, ``torch.optim`` runs the step and raises the error."""
    param = placed(GRAD, "0").requires_grad_()
    before, param.grad = whole(param).clone(), placed(GRAD, "0R", 0, 1)
    with pytest.raises(RuntimeError, match="mesh"):
        syncfree.SGD([param], lr=0.1).step()
    assert_same([param], [before])


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_stale_backward_raises(place: tuple[Any, ...]) -> None:
    param = placed(torch.ones(4, 3), *place).requires_grad_()
    optimizer: Any = syncfree.AdamW([param])
    stale = (param * param).sum()
    param.grad = placed(torch.ones(4, 3), *place)
    optimizer.step()
    state = [optimizer.state[param][name] for name in ("exp_avg", "exp_avg_sq")]
    versions = [tensor._version for tensor in state]
    optimizer.step(found_inf=torch.zeros(()))
    assert all(tensor._version > version for tensor, version in zip(state, versions, strict=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        stale.backward()


@pytest.mark.parametrize(
    ("kind", "libraries", "options"),
    [
        ("SGD momentum", "ours to theirs", None),
        ("SGD momentum", "ours to ours", {"full_state_dict": False}),
        ("Adam amsgrad", "theirs to ours", None),
        ("Adam amsgrad", "ours to theirs", {"full_state_dict": True}),
        ("AdamW", "ours to ours", None),
        ("AdamW", "theirs to ours", {"full_state_dict": False}),
        ("AdamW", "theirs to ours", {"full_state_dict": True}),
    ],
)
def test_checkpoints_load_in_both_directions(kind: str, libraries: str, options: dict[str, bool] | None) -> None:
    """The state passes through ``state_dict`` or functions of ``torch.distributed``, as shards or whole tensors."""
    before, after = ({"ours": OURS, "theirs": THEIRS}[name] for name in libraries.split(" to "))
    layers, others = model(), model()
    first, reference = make(before, kind, layers.parameters()), make(THEIRS, kind, others.parameters())
    train(layers, first, range(4))
    resumed = make(after, kind, layers.parameters())
    if options is None:
        resumed.load_state_dict(first.state_dict())
    else:
        package = distributed.checkpoint.state_dict
        how = package.StateDictOptions(**options)
        saved = package.get_optimizer_state_dict(layers, first, options=how)
        package.set_optimizer_state_dict(layers, resumed, saved, options=how)
    train(layers, resumed, range(4, 8))
    train(others, reference, range(8))
    assert_same(layers.parameters(), others.parameters(), tolerance=3e-6)


def test_fused_state_loads_into_dtensors() -> None:
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


@pytest.mark.parametrize("state_dtype", [None, torch.float64])
def test_a_module_that_changes_its_dtype_and_a_state_of_another_dtype(state_dtype: torch.dtype | None) -> None:
    layers, others = model(), model()
    ours: Any = syncfree.AdamW(layers.parameters(), **ADAM, state_dtype=state_dtype)
    for optimizer, module in ((ours, layers), (torch.optim.AdamW(others.parameters(), **ADAM), others)):
        train(module, optimizer, range(2))
        if state_dtype is None:
            module.double().float()
            module.load_state_dict({name: value * 1.5 for name, value in module.state_dict().items()})
        else:
            optimizer.load_state_dict(optimizer.state_dict())
        train(module, optimizer, range(2, 4))
    assert_same(layers.parameters(), others.parameters(), tolerance=1e-5)
    averages: list[Tensor] = [values["exp_avg"] for values in ours.state.values()]
    assert {average.dtype for average in averages} == {state_dtype or torch.float32}
