"""``SkipAwareLR``: the learning rates equal ``LambdaLR``'s, but do not advance at skipped steps."""

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import polycast
import pytest
import torch
from torch import Tensor
from torch.optim import lr_scheduler

from tests.scaler.common import INF, OPTIMIZERS, Wrapper, started
from tests.support.devices import NEEDS_XLA, Traffic, synchronize

SKIPS = (0, 3, 4, 9, 13)

# Each schedule is a function of tensors, and a function of numbers.
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Any], Callable[[int], float]]] = {
    "warm-up": (lambda n: torch.where(n < 5, (n + 1) / 5, 1.0), lambda n: (n + 1) / 5 if n < 5 else 1.0),
    "cosine": (
        lambda n: (1 + torch.cos(math.pi * n.clamp(max=9) / 9)) / 2,
        lambda n: (1 + math.cos(math.pi * min(n, 9) / 9)) / 2,
    ),
    "constant": (lambda n: 0.5, lambda n: 0.5),  # noqa: ARG005
}


class Loop:
    """An optimizer of two groups with one parameter each, and iterations that may skip."""

    def __init__(self, kind: str = "sync-free", device: str = "cpu", lr: Any = 0.1) -> None:
        self.params = [torch.ones(1, device=device, requires_grad=True) for _ in range(2)]
        self.optimizer: Any = OPTIMIZERS[kind](
            [{"params": self.params[:1], "lr": lr}, {"params": self.params[1:], "lr": 0.02}]
        )
        self.scaler = polycast.GradScaler(init_scale=4.0)
        self.scaler.scale(torch.ones(1, device=device))

    def rates(self) -> list[float]:
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def iterate(self, skip: bool) -> None:
        for param in self.params:
            param.grad = torch.tensor([INF if skip else 1.0]).to(param.device)
        self.scaler.step(self.optimizer)
        self.scaler.update(4.0)


def halving(loop: Loop) -> polycast.SkipAwareLR:
    return polycast.SkipAwareLR(loop.optimizer, lambda steps: 0.5**steps, loop.scaler)


@pytest.mark.parametrize(
    ("name", "kind", "device", "lr"),
    [
        *((name, "sync-free", "cpu", 0.1) for name in FUNCTIONS),
        ("warm-up", "sync-free", "cpu", torch.tensor(0.1)),
        ("warm-up", "fused", "cpu", 0.1),
        ("warm-up", "for-loop", "cpu", torch.tensor(0.1)),
        pytest.param("cosine", "sync-free", "xla", 0.1, marks=NEEDS_XLA),
    ],
)
def test_it_equals_lambda_lr_that_advances_only_after_taken_steps(name: str, kind: str, device: str, lr: Any) -> None:
    ours, theirs = Loop(kind, device, lr), Loop("for-loop", lr=float(lr))
    function, of_numbers = FUNCTIONS[name]
    schedule = polycast.SkipAwareLR(ours.optimizer, [function, lambda n: 0.9**n], ours.scaler)
    theirs_schedule = lr_scheduler.LambdaLR(theirs.optimizer, [of_numbers, lambda n: 0.9**n])
    tensors, rtol = [group["lr"] for group in ours.optimizer.param_groups], 1e-14 if kind == "sync-free" else 1e-6
    for number in range(17):
        ours.iterate(skip=number in SKIPS)
        schedule.step()
        if number not in SKIPS:
            theirs.iterate(skip=False)
            theirs_schedule.step()
        assert schedule.get_last_lr() == ours.rates() == pytest.approx(theirs.rates(), rel=rtol)
    assert [param.item() for param in ours.params] == pytest.approx([param.item() for param in theirs.params], rel=1e-5)
    # Trainers read these attributes.
    assert isinstance(schedule, lr_scheduler.LRScheduler)
    assert (schedule.optimizer, schedule.last_epoch, schedule.base_lrs) == (ours.optimizer, 17, [float(lr), 0.02])
    assert schedule.state_dict() == {"steps_taken": 12, "base_lrs": [float(lr), 0.02]}
    # Compiled or captured code reads the same tensors again, and the schedule does not write the user's tensor.
    assert all(group["lr"] is rate for group, rate in zip(ours.optimizer.param_groups, tensors, strict=True))
    assert float(lr) == pytest.approx(0.1)


@NEEDS_XLA
def test_learning_rates_on_xla_compile_nothing_and_do_not_sync() -> None:
    loop = Loop(device="xla")
    schedule = polycast.SkipAwareLR(loop.optimizer, FUNCTIONS["cosine"][0], loop.scaler)
    traffic, counts = Traffic(), []
    for number in range(8):
        loop.iterate(skip=number == 3)
        schedule.step()
        synchronize("xla")
        counts.append((traffic.compiles(), traffic.reads()))
    assert counts[2:] == [counts[2]] * 6


@pytest.mark.parametrize("optimizer_first", [False, True])
def test_a_checkpoint_resumes_the_schedule(optimizer_first: bool) -> None:
    """The optimizer's state may load before or after the schedule's state. A copied schedule continues separately."""
    first, second = Loop(), Loop()
    schedule = halving(first)
    for number in range(6):
        first.iterate(skip=number in SKIPS)
        schedule.step()
    states = deepcopy((first.optimizer.state_dict(), schedule.state_dict()))
    second.optimizer.param_groups[0]["lr"] = 7.0  # The loaded state replaces this rate.
    if optimizer_first:
        second.optimizer.load_state_dict(states[0])
    resumed = halving(second)
    resumed.load_state_dict(states[1])
    if not optimizer_first:
        second.optimizer.load_state_dict(states[0])
    third, copied = deepcopy((first, schedule))
    started(third.scaler)
    rates = [type(group["lr"]) for loop in (first, second) for group in loop.optimizer.param_groups]
    assert len({*rates}) == 1  # PyTorch loads distributed checkpoints into state of equal types.
    for number in range(5):
        for loop, each in ((first, schedule), (second, resumed), (third, copied)):
            loop.iterate(skip=number == 1)
            each.step()
            assert loop.rates() == pytest.approx(first.rates(), rel=1e-6)


@pytest.mark.parametrize(
    ("enabled", "counts"),
    [
        (True, [(None, 2), (True, 2), (False, 4), (True, 4), (None, 4), (False, 6), (None, 8)]),
        (False, [(False, 2), (False, 4)]),
    ],
)
def test_every_call_counts_except_after_a_skipped_step(enabled: bool, counts: list[tuple[bool | None, int]]) -> None:
    """As in PyTorch, a schedule may step several times per iteration, and before the optimizer's first step."""
    loop = Loop()
    if not enabled:
        loop.scaler = polycast.GradScaler(enabled=False)
    schedule = halving(loop)
    for skip, count in counts:
        if skip is not None:
            loop.iterate(skip)
        for _ in range(2):
            schedule.step()
        assert loop.rates() == pytest.approx([0.1 * 0.5**count, 0.02 * 0.5**count])


def test_it_follows_a_wrapped_optimizer_whose_first_group_can_be_empty() -> None:
    weight, scaler = torch.nn.Parameter(torch.ones(1)), started()
    groups: list[dict[str, Any]] = [{"params": []}, {"params": [weight]}]
    optimizer = polycast.syncfree.SGD(groups, lr=1.0)
    wrapped = Wrapper(optimizer, scaler)
    schedule = polycast.SkipAwareLR(wrapped, lambda steps: 0.5**steps, scaler)
    for grad in (1.0, INF, 1.0):
        weight.grad = torch.tensor([grad])
        wrapped.step()
        scaler.update()
        schedule.step()
    assert schedule.get_last_lr() == [0.25, 0.25]
