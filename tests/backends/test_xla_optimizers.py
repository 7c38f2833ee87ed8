"""The sync-free optimizers on XLA: torch.optim's steps and checkpoints, nothing read back, nothing compiled twice."""

from typing import Any

import pytest
import torch
from polycast import syncfree
from torch import Tensor

from tests.optimizers import KINDS, OURS, THEIRS, make, parameters, same_bits, set_grads, tensors
from tests.probe import HAS_XLA, NO_XLA
from tests.xla import Traffic, on_xla, set_lr, sync

pytestmark = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)

SHAPES = ((7,), (3, 5), (), (0, 2))
STEPS = 100
BETA1, DECAY, EPS = 0.9, 0.01, 1e-8
# Numbers that torch_xla would make constants of the graph, or that another factor of the arithmetic equals.
LRS = [1e-3, 0.0, 1.0, EPS, BETA1, 1 - BETA1, DECAY, 2e-3]
SHARED: dict[str, Any] = {"lr": 1e-3, "weight_decay": DECAY}
COUNTED = {
    "SGD": {**SHARED, "momentum": BETA1},
    "Adam": {**SHARED, "betas": (BETA1, 0.99), "eps": EPS, "amsgrad": True},
    "AdamW": {**SHARED, "betas": (BETA1, 0.99), "eps": EPS},
}


def train(optimizer: Any, params: list[Tensor], numbers: range) -> None:
    for number in numbers:
        set_grads(params, number)
        optimizer.step()


def assert_same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left.detach().cpu(), right.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_torch_optim(kind: str) -> None:
    theirs = parameters(*SHAPES)
    ours = on_xla(theirs)
    train(make(THEIRS, kind, theirs), theirs, range(5))
    train(make(OURS, kind, ours), ours, range(5))
    assert_same(ours, theirs)


@pytest.mark.parametrize("kind", ["SGD momentum", "Adam", "AdamW"])
def test_the_learning_rate_may_be_on_the_device(kind: str) -> None:
    theirs = parameters(*SHAPES)
    ours = on_xla(theirs)
    reference, optimizer = make(THEIRS, kind, theirs), make(OURS, kind, ours)
    set_lr(reference, 0.05)
    set_lr(optimizer, torch.tensor(0.05, device="xla"))
    train(reference, theirs, range(3))
    train(optimizer, ours, range(3))
    assert_same(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_state_travels_from_and_to_torch_optim(kind: str) -> None:
    """Torch.optim on the host, then ours on XLA, then torch.optim again, beside torch.optim all the way."""
    theirs, start = parameters(*SHAPES), parameters(*SHAPES)
    whole, first = make(THEIRS, kind, theirs), make(THEIRS, kind, start)
    train(whole, theirs, range(6))
    train(first, start, range(2))
    ours = on_xla(start)
    middle = make(OURS, kind, ours)
    middle.load_state_dict(first.state_dict())
    train(middle, ours, range(2, 4))
    assert {value.device.type for value in tensors(middle)} == {"xla"}
    back = [param.detach().cpu().requires_grad_() for param in ours]
    last = make(THEIRS, kind, back)
    last.load_state_dict(middle.state_dict())
    train(last, back, range(4, 6))
    assert_same(back, theirs)


@pytest.mark.parametrize("place", ["float", "host", "xla"])
@pytest.mark.parametrize("kind", COUNTED)
def test_a_hundred_steps_read_nothing_and_compile_twice_at_most(kind: str, place: str) -> None:
    params = on_xla(parameters(*SHAPES))
    optimizer = OURS[kind](params, **COUNTED[kind])
    set_grads(params, 0)
    flags = [torch.tensor(float(skip)).to("xla") for skip in (False, True)]
    traffic, compiles = Traffic(), []
    for number in range(STEPS):
        lr = LRS[number % len(LRS)]
        set_lr(optimizer, lr if place == "float" else torch.tensor([lr]).to("cpu" if place == "host" else "xla"))
        optimizer.step(found_inf=flags[number % 5 == 3])
        sync()
        compiles.append(traffic.compiles())
    assert compiles[1:] == [compiles[1]] * (STEPS - 1)
    assert traffic.reads() == 0
    if kind != "SGD":
        assert {values["step"].item() for values in optimizer.state.values()} == {STEPS - STEPS // 5}


def test_learning_rates_that_stop_being_equal_compile_nothing() -> None:
    params = on_xla(parameters(*SHAPES))
    optimizer = OURS["AdamW"]([{"params": params[:2]}, {"params": params[2:]}], **COUNTED["AdamW"])
    set_grads(params, 0)
    traffic, compiles = Traffic(), []
    for number in range(6):
        for group, lr in zip(optimizer.param_groups, (1e-3, 1e-3 if number < 3 else 2e-3 * number), strict=True):
            group["lr"] = lr
        optimizer.step()
        sync()
        compiles.append(traffic.compiles())
    assert compiles[1:] == [compiles[1]] * 5


@pytest.mark.parametrize("kind", COUNTED)
def test_a_skipped_step_changes_no_bit(kind: str) -> None:
    params = on_xla(parameters(*SHAPES))
    optimizer = OURS[kind](params, **COUNTED[kind])
    train(optimizer, params, range(2))
    before = [tensor.cpu() for tensor in tensors(optimizer)]
    set_grads(params, 2, factor=float("nan"))
    optimizer.step(found_inf=torch.ones((), device="xla"))
    assert all(same_bits(tensor.cpu(), old) for tensor, old in zip(tensors(optimizer), before, strict=True))


def test_optimizer_step_of_torch_xla() -> None:
    """Seed 000 and 003: xm.optimizer_step, with its arguments for the step."""
    import torch_xla.core.xla_model as xm

    params = on_xla(parameters((3,)))
    optimizer = syncfree.SGD(params, lr=1.0)
    before = params[0].tolist()
    for found_inf in (1.0, 0.0):
        set_grads(params, 0)
        xm.optimizer_step(optimizer, barrier=True, optimizer_args={"found_inf": torch.tensor(found_inf).to("xla")})
        assert (params[0].tolist() == before) == bool(found_inf)


def test_parameters_without_gradients_sit_out() -> None:
    theirs = parameters(*SHAPES)
    ours = on_xla(theirs)
    pair = [(make(THEIRS, "Adam", theirs), theirs), (make(OURS, "Adam", ours), ours)]
    for number in range(4):
        for optimizer, params in pair:
            set_grads(params, number)
            if number != 2:
                params[1].grad = None
            optimizer.step()
    assert_same(ours, theirs)
