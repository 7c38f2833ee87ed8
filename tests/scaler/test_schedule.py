"""SkipAwareLR: the learning rates of a scheduler that does not advance at skipped steps."""

import re
import threading
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch.optim import lr_scheduler

from tests.scaler.common import INF, started

STEPS = 12
SKIPS = (0, 3, 4, 9, 13)
Make = Callable[[Any], Any]

TABLES: dict[str, Make] = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, [lambda n: 0.9**n, lambda n: 1 / (1 + n)]),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda n: 0.5 if n % 2 else 1.5),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 3, 7], 0.1),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.3, 4),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.1, 1.0, 5),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.7),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 8, 2.0),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 6, 1e-3),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 3, cycle_momentum=False),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.5, total_steps=STEPS, cycle_momentum=False),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, 1.0, 4), lr_scheduler.ExponentialLR(o, 0.7)], [4]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1, 3), lr_scheduler.ExponentialLR(o, 0.9)], o
    ),
}


class Loop:
    """Two groups of one parameter, the scheduler of a name, and iterations that skip or do not."""

    def __init__(self, library: Any = syncfree) -> None:
        self.params = [torch.ones(1, requires_grad=True) for _ in range(2)]
        groups = [{"params": self.params[:1]}, {"params": self.params[1:], "lr": 0.02}]
        self.optimizer = library.SGD(groups, lr=0.1, momentum=0.9)
        self.scaler = started(init_scale=4.0)

    def rates(self) -> list[float]:
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def iterate(self, skip: bool) -> None:
        for param in self.params:
            param.grad = torch.full_like(param, INF if skip else 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update(4.0)


def test_every_scheduler_of_torchs_is_looked_at() -> None:
    every = {name for name in lr_scheduler.__all__ if issubclass(getattr(lr_scheduler, name), lr_scheduler.LRScheduler)}
    assert every - {"LRScheduler", "ReduceLROnPlateau"} == TABLES.keys()


@pytest.mark.parametrize("name", TABLES)
def test_it_is_the_scheduler_stepped_at_steps_taken(name: str) -> None:
    ours, theirs = Loop(), Loop(torch.optim)
    scheduler, theirs_schedule = TABLES[name](ours.optimizer), TABLES[name](theirs.optimizer)
    before, rates = plain(scheduler.state_dict()), ours.rates()
    schedule = follow(scheduler, ours.scaler)
    assert plain(scheduler.state_dict()) == before
    assert ours.rates() == rates
    seen = set()
    for number in range(STEPS + len(SKIPS)):
        skip = number in SKIPS
        ours.iterate(skip)
        schedule.step()
        if not skip:
            theirs.iterate(False)
            theirs_schedule.step()
        assert ours.rates() == theirs.rates(), number
        assert schedule.get_last_lr() == schedule.get_lr() == ours.rates()
        seen.add(tuple(ours.rates()))
    assert len(seen) > 1
    assert [param.item() for param in ours.params] == pytest.approx([param.item() for param in theirs.params], rel=1e-5)
    last = ours.rates()
    ours.iterate(False)
    schedule.step()
    assert ours.rates() == last  # after the table the last one stays


def plain(value: Any) -> Any:
    """Return a nested value without the objects that equal themselves only."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (int, float, str)) else type(value)


def halving(optimizer: Any = None) -> lr_scheduler.LRScheduler:
    return lr_scheduler.ExponentialLR(optimizer or Loop().optimizer, 0.5)


REFUSED = "{} cannot be made skip-aware without a read: {}"
MOMENTUM = "it changes the momentum too, which a step takes as a number; pass cycle_momentum=False"
FUSED = torch.optim.SGD([torch.ones(1, requires_grad=True)], fused=True)
ORDER = "SkipAwareLR was given {} and {}; it takes a scheduler of torch.optim.lr_scheduler and a polycast.GradScaler"
SCHEDULER, SCALER = "torch.optim.lr_scheduler.ExponentialLR", "polycast.scaler.scaler.GradScaler"


def follow(scheduler: Any, scaler: Any = None, steps: int = STEPS) -> polycast.SkipAwareLR:
    return polycast.SkipAwareLR(scheduler, scaler or polycast.GradScaler(), steps)


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a metric": (
        lambda: follow(lr_scheduler.ReduceLROnPlateau(Loop().optimizer)),
        TypeError,
        REFUSED.format("ReduceLROnPlateau", "it follows a metric that the host hands to it"),
    ),
    "cycles of the momentum": (
        lambda: follow(lr_scheduler.CyclicLR(Loop().optimizer, 0.01, 0.1)),
        TypeError,
        REFUSED.format("CyclicLR", MOMENTUM),
    ),
    "one cycle of the momentum": (
        lambda: follow(lr_scheduler.OneCycleLR(Loop().optimizer, 0.5, STEPS)),
        TypeError,
        REFUSED.format("OneCycleLR", MOMENTUM),
    ),
    "a part that is refused": (
        lambda: follow(lr_scheduler.ChainedScheduler([lr_scheduler.OneCycleLR(Loop().optimizer, 0.5, STEPS)])),
        TypeError,
        REFUSED.format("ChainedScheduler", f"its OneCycleLR cannot, because {MOMENTUM}"),
    ),
    "one that follows skips already": (
        lambda: follow(follow(halving())),
        TypeError,
        REFUSED.format("SkipAwareLR", "it already is"),
    ),
    "an optimizer that takes its rate from the host": (
        lambda: follow(halving(FUSED)),
        TypeError,
        "SGD takes its learning rate from the host; use an optimizer of polycast.syncfree, or step the scheduler",
    ),
    "the order": (lambda: follow(polycast.GradScaler(), halving()), TypeError, ORDER.format(SCALER, SCHEDULER)),
    "torch's scaler": (
        lambda: follow(halving(), torch.amp.grad_scaler.GradScaler("cpu")),
        TypeError,
        ORDER.format(SCHEDULER, "torch.amp.grad_scaler.GradScaler"),
    ),
    "no steps": (
        lambda: follow(halving(), steps=0),
        ValueError,
        "steps is 0; it takes a positive number of steps",
    ),
    "a text of steps": (
        lambda: follow(halving(), steps="10"),  # type: ignore[arg-type]
        TypeError,
        "steps is '10'; it takes a whole number of steps",
    ),
    "no state": (
        lambda: follow(halving()).load_state_dict({}),
        ValueError,
        "a state with [] does not fit 2 parameter groups; load what SkipAwareLR.state_dict() returned for the same",
    ),
    "the state of a scheduler of torch's": (
        lambda: follow(halving()).load_state_dict(halving().state_dict()),
        ValueError,
        "the state is that of a scheduler of torch's; load it into such a scheduler, and make the SkipAwareLR of that",
    ),
    "no dictionary": (
        lambda: follow(halving()).load_state_dict([]),  # type: ignore[arg-type]
        TypeError,
        "the state is [], and no dict; load what SkipAwareLR.state_dict() returned",
    ),
    "the state of other groups": (
        lambda: follow(halving()).load_state_dict({"table": torch.ones(3, 1), "steps_taken": 1}),
        ValueError,
        "a state with ['steps_taken', 'table'] does not fit 2 parameter groups; ",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    call, error, text = WRONG[name]
    with pytest.raises(error, match=f"^{re.escape(text)}"):
        call()


@pytest.mark.parametrize("saved_at", [0, 1, 6])
def test_a_checkpoint_goes_on_where_it_was(saved_at: int) -> None:
    first, second = Loop(), Loop()
    schedule = follow(halving(first.optimizer), first.scaler)
    for number in range(saved_at):
        first.iterate(skip=number in SKIPS)
        schedule.step()
    second.optimizer.param_groups[0]["lr"] = 7.0  # the table is part of the state, so it does not begin here
    resumed = follow(halving(second.optimizer), second.scaler)
    resumed.load_state_dict(schedule.state_dict())
    steps_taken = saved_at - sum(number in SKIPS for number in range(saved_at))
    assert [adapter.state_dict()["steps_taken"] for adapter in (schedule, resumed)] == [steps_taken] * 2
    for number in range(5):
        assert second.rates() == pytest.approx(first.rates(), rel=1e-6)
        for loop, adapter in ((first, schedule), (second, resumed)):
            loop.iterate(skip=number == 1)
            adapter.step()


def test_a_learning_rate_is_of_one_type_in_all_checkpoints() -> None:
    """Torch's distributed ones are loaded into what a fresh optimizer has."""
    first, fresh = Loop(), Loop()
    follow(halving(fresh.optimizer), fresh.scaler)
    schedule = follow(halving(first.optimizer), first.scaler)
    first.iterate(skip=False)
    schedule.step()
    groups = zip(first.optimizer.param_groups, fresh.optimizer.param_groups, strict=True)
    assert all(type(a["lr"]) is type(b["lr"]) and a["lr"].shape == b["lr"].shape for a, b in groups)


def test_each_call_counts_but_after_a_skipped_step() -> None:
    """As stock's schedulers count: a trainer may call once for each of its processes."""
    loop = Loop()
    schedule = follow(halving(loop.optimizer), loop.scaler)
    for skip, count in ((True, 0), (False, 2), (True, 2), (None, 2), (False, 4), (None, 6)):
        if skip is not None:
            loop.iterate(skip)
        for _ in range(2):
            schedule.step()
        assert loop.rates() == pytest.approx([0.1 * 0.5**count, 0.02 * 0.5**count])
    assert repr(schedule) == "SkipAwareLR(ExponentialLR, SGD, steps=12)"


def test_it_is_a_scheduler_as_trainers_look_for_it() -> None:
    loop = Loop()
    schedule = follow(halving(loop.optimizer), loop.scaler)
    assert isinstance(schedule, lr_scheduler.LRScheduler)
    assert schedule.optimizer is loop.optimizer
    assert schedule.base_lrs == [0.1, 0.02]
    schedule.step()  # before the first step, and before the scale is on a device
    loop.iterate(skip=False)
    schedule.step()
    assert schedule.last_epoch == 2
    assert schedule.get_last_lr() == pytest.approx([0.025, 0.005])


def test_a_disabled_scaler_skips_nothing() -> None:
    loop = Loop()
    loop.scaler = polycast.GradScaler(enabled=False)
    schedule = follow(halving(loop.optimizer), loop.scaler)
    for count in range(1, 4):
        loop.iterate(skip=False)
        schedule.step()
        assert loop.rates() == pytest.approx([0.1 * 0.5**count, 0.02 * 0.5**count])


class Trainer:
    """Holds what no copy should be made of, and the function of a schedule."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # deepcopy raises

    def factor(self, step: int) -> float:
        return 0.5**step


class Recording(lr_scheduler.LambdaLR):
    """A scheduler with a list of its own."""

    def get_lr(self) -> list[Any]:
        getattr(self, "seen", []).append(self.last_epoch)
        return super().get_lr()


def test_the_table_leaves_what_the_user_holds_and_copies_no_trainer() -> None:
    lr, seen = torch.tensor(1.0), [0]
    optimizer = syncfree.SGD([torch.ones(1, requires_grad=True)], lr=lr)
    scheduler: Any = Recording(optimizer, Trainer().factor)
    scheduler.seen = seen
    chained = lr_scheduler.ChainedScheduler([scheduler], optimizer)
    for made in (scheduler, chained):
        schedule = follow(made)
        assert (lr.item(), seen, scheduler.last_epoch) == (1.0, [0], 0)
        assert optimizer.param_groups[0]["lr"].item() == 1.0
        assert schedule.state_dict()["table"][:3, 0].tolist() == [1.0, 0.5, 0.25]


def test_copies_advance_with_their_own_steps() -> None:
    loop = Loop()
    schedule = follow(halving(loop.optimizer), loop.scaler)
    for _ in range(3):
        loop.iterate(skip=False)
        schedule.step()
    copy, schedule_copy = deepcopy((loop, schedule))
    assert copy.rates() == pytest.approx([0.0125, 0.0025])
    started(copy.scaler)
    for _ in range(2):
        copy.iterate(skip=False)
        schedule_copy.step()
    assert copy.rates() == pytest.approx([0.003125, 0.000625])
    assert loop.rates() == pytest.approx([0.0125, 0.0025])
