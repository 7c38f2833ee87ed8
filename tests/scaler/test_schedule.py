"""RealStepLR: the learning rates of a scheduler that advances at real steps only."""

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch.optim import lr_scheduler

INF = float("inf")
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
MOMENTUM = "it changes the momentum too, which a step takes as a number; pass cycle_momentum=False"
METRIC = "it follows a metric that the host hands to it"
REFUSED: dict[str, tuple[Make, str]] = {
    "ReduceLROnPlateau": (lr_scheduler.ReduceLROnPlateau, METRIC),
    "CyclicLR": (lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1), MOMENTUM),
    "OneCycleLR": (lambda o: lr_scheduler.OneCycleLR(o, 0.5, STEPS), MOMENTUM),
    "SequentialLR": (
        lambda o: lr_scheduler.SequentialLR(
            o, [lr_scheduler.ExponentialLR(o, 0.7), lr_scheduler.CyclicLR(o, 0.01, 0.1)], [4]
        ),
        f"its CyclicLR cannot, because {MOMENTUM}",
    ),
    "ChainedScheduler": (
        lambda o: lr_scheduler.ChainedScheduler(
            [lr_scheduler.ExponentialLR(o, 0.7), lr_scheduler.OneCycleLR(o, 0.5, STEPS)], o
        ),
        f"its OneCycleLR cannot, because {MOMENTUM}",
    ),
}
TABLED = pytest.mark.parametrize("name", TABLES)


class Loop:
    """Two groups of one parameter, the scheduler of a name, and iterations that skip or do not."""

    def __init__(self, library: Any = syncfree) -> None:
        self.params = [torch.ones(1, requires_grad=True) for _ in range(2)]
        groups = [{"params": self.params[:1]}, {"params": self.params[1:], "lr": 0.02}]
        self.optimizer = library.SGD(groups, lr=0.1, momentum=0.9)
        self.scaler = polycast.GradScaler(init_scale=4.0)
        self.scaler.scale(torch.ones(1))

    def rates(self) -> list[float]:
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def iterate(self, skip: bool, factor: float = 1.0) -> None:
        for param in self.params:
            param.grad = torch.full_like(param, INF if skip else factor)
        self.scaler.step(self.optimizer)
        self.scaler.update(4.0)


def is_scheduler(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, lr_scheduler.LRScheduler)


def test_every_scheduler_of_torchs_is_looked_at() -> None:
    every = {name for name in lr_scheduler.__all__ if is_scheduler(getattr(lr_scheduler, name))} - {"LRScheduler"}
    assert every == TABLES.keys() | REFUSED.keys()


@TABLED
def test_it_is_the_scheduler_stepped_at_real_steps(name: str) -> None:
    ours, theirs = Loop(), Loop(torch.optim)
    theirs_schedule = TABLES[name](theirs.optimizer)
    schedule = polycast.RealStepLR(TABLES[name](ours.optimizer), ours.scaler, STEPS)
    assert ours.rates() == theirs.rates()
    seen = set()
    for number in range(STEPS + len(SKIPS)):
        skip = number in SKIPS
        ours.iterate(skip)
        schedule.step()
        if not skip:
            theirs.iterate(False, factor=4.0 / 4.0)
            theirs_schedule.step()
        assert ours.rates() == pytest.approx(theirs.rates(), rel=1e-6, abs=1e-12), number
        assert schedule.get_last_lr() == ours.rates()
        seen.add(tuple(ours.rates()))
    assert len(seen) > 1
    assert [param.item() for param in ours.params] == pytest.approx([param.item() for param in theirs.params], rel=1e-5)
    last = ours.rates()
    ours.iterate(False)
    schedule.step()
    assert ours.rates() == last  # after the table the last one stays


@TABLED
def test_the_table_leaves_the_scheduler_as_it_was(name: str) -> None:
    optimizer = Loop().optimizer
    scheduler = TABLES[name](optimizer)
    before = scheduler.state_dict(), [{**group, "params": ()} for group in optimizer.param_groups]
    polycast.RealStepLR(scheduler, polycast.GradScaler(), STEPS)
    after = scheduler.state_dict(), [{**group, "params": ()} for group in optimizer.param_groups]
    assert plain(after) == plain(before)


def plain(value: Any) -> Any:
    """Return a nested value without the objects that equal themselves only."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (int, float, str)) else type(value)


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused_by_name(name: str) -> None:
    make, reason = REFUSED[name]
    text = f"{name} cannot follow real steps without a read: {reason}"
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        polycast.RealStepLR(make(Loop().optimizer), polycast.GradScaler(), STEPS)


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_an_optimizer_that_takes_its_rate_from_the_host_is_refused(kind: str) -> None:
    optimizer = getattr(torch.optim, kind)([torch.ones(1, requires_grad=True)], fused=True)
    text = (
        f"{kind} takes its learning rate from the host; use an optimizer of polycast.syncfree, or step the scheduler "
        "yourself"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        polycast.RealStepLR(lr_scheduler.ExponentialLR(optimizer, 0.5), polycast.GradScaler(), STEPS)


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (lambda scheduler: (polycast.GradScaler(), scheduler, 3), "polycast.scaler.scaler.GradScaler and torch.optim."),
        (
            lambda scheduler: (scheduler, torch.amp.grad_scaler.GradScaler("cpu"), 3),
            "ExponentialLR and torch.amp.grad_scaler.",
        ),
        (lambda scheduler: (scheduler, 3, polycast.GradScaler()), "ExponentialLR and int; it takes a scheduler"),
    ],
    ids=["order", "torch's scaler", "steps first"],
)
def test_the_order_of_the_arguments(arguments: Callable[[Any], tuple[Any, ...]], given: str) -> None:
    scheduler = lr_scheduler.ExponentialLR(Loop().optimizer, 0.5)
    with pytest.raises(TypeError, match=f"^RealStepLR was given .*{re.escape(given)}"):
        polycast.RealStepLR(*arguments(scheduler))


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        ({}, ValueError, "a state with [] does not fit 2 parameter groups; "),
        ({"table": torch.ones(3, 1), "real_steps": "1"}, ValueError, "a state with ['real_steps', 'table'] does not"),
    ],
    ids=str,
)
def test_a_state_of_something_else(state: Any, error: type[Exception], text: str) -> None:
    scheduler = lr_scheduler.ExponentialLR(Loop().optimizer, 0.5)
    schedule = polycast.RealStepLR(scheduler, polycast.GradScaler(), STEPS)
    before = schedule.state_dict()
    with pytest.raises(error, match=f"^{re.escape(text)}"):
        schedule.load_state_dict(state)
    assert schedule.state_dict()["real_steps"] == before["real_steps"]


@pytest.mark.parametrize("steps", [0, -1])
def test_the_table_has_steps(steps: int) -> None:
    schedule = lr_scheduler.ExponentialLR(Loop().optimizer, 0.5)
    with pytest.raises(ValueError, match=f"^steps is {steps}; it takes a positive number of steps$"):
        polycast.RealStepLR(schedule, polycast.GradScaler(), steps)


@TABLED
@pytest.mark.parametrize("saved_at", [0, 1, 6])
def test_a_checkpoint_goes_on_where_it_was(name: str, saved_at: int) -> None:
    first, second = Loop(), Loop()
    schedule = polycast.RealStepLR(TABLES[name](first.optimizer), first.scaler, STEPS)
    for number in range(saved_at):
        first.iterate(skip=number in SKIPS)
        schedule.step()
    resumed = polycast.RealStepLR(TABLES[name](second.optimizer), second.scaler, STEPS)
    assert schedule.state_dict()["real_steps"] == saved_at - sum(number in SKIPS for number in range(saved_at))
    resumed.load_state_dict(schedule.state_dict())
    assert resumed.state_dict()["real_steps"] == schedule.state_dict()["real_steps"]
    assert second.rates() == pytest.approx(first.rates(), rel=1e-6)
    for number in range(5):
        for loop, adapter in ((first, schedule), (second, resumed)):
            loop.iterate(skip=number == 1)
            adapter.step()
        assert second.rates() == pytest.approx(first.rates(), rel=1e-6)


def test_without_a_step_of_the_optimizer_nothing_advances() -> None:
    loop = Loop()
    schedule = polycast.RealStepLR(lr_scheduler.ExponentialLR(loop.optimizer, 0.5), loop.scaler, STEPS)
    loop.iterate(skip=True)
    schedule.step()
    assert loop.rates() == pytest.approx([0.1, 0.02])


def test_a_disabled_scaler_skips_nothing() -> None:
    loop = Loop()
    loop.scaler = polycast.GradScaler(enabled=False)
    schedule = polycast.RealStepLR(lr_scheduler.ExponentialLR(loop.optimizer, 0.5), loop.scaler, STEPS)
    for count in range(1, 4):
        loop.iterate(skip=False)
        schedule.step()
        assert loop.rates() == pytest.approx([0.1 * 0.5**count, 0.02 * 0.5**count])


def test_the_order_of_loading_does_not_matter() -> None:
    """The table is part of the state, so that an optimizer that was loaded first begins no other table."""
    weight = torch.nn.Parameter(torch.ones(1))

    def made(lr: float) -> tuple[Any, Any, Any]:
        optimizer = syncfree.SGD([weight], lr=lr)
        scaler = polycast.GradScaler(init_scale=4.0)
        schedule = polycast.RealStepLR(lr_scheduler.ExponentialLR(optimizer, 0.5), scaler, steps=10)
        return optimizer, scaler, schedule

    optimizer, scaler, schedule = made(1.0)
    for _ in range(3):
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
    _, _, resumed = made(0.125)
    resumed.load_state_dict(schedule.state_dict())
    assert resumed.get_last_lr() == schedule.get_last_lr() == [0.125]


def test_it_advances_once_for_a_step() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = syncfree.SGD([weight], lr=1.0)
    scaler: Any = polycast.GradScaler(init_scale=4.0)
    schedule = polycast.RealStepLR(lr_scheduler.ExponentialLR(optimizer, 0.5), scaler, steps=10)
    schedule.step()
    assert schedule.get_last_lr() == [1.0]
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    for _ in range(3):
        schedule.step()
    assert schedule.get_last_lr() == [0.5]


def test_the_table_leaves_what_the_user_holds() -> None:
    lr, seen = torch.tensor(1.0), [0]

    def factor(step: int) -> float:
        return 0.5**step

    class Recording(lr_scheduler.ExponentialLR):
        def get_lr(self) -> list[Any]:
            getattr(self, "seen", []).append(self.last_epoch)
            return super().get_lr()

    optimizer = syncfree.SGD([torch.ones(1, requires_grad=True)], lr=lr)
    scheduler = Recording(optimizer, 0.5)
    scheduler.seen = seen  # type: ignore[attr-defined]
    schedule = polycast.RealStepLR(scheduler, polycast.GradScaler(), STEPS)
    assert (lr.item(), seen) == (1.0, [0])
    assert optimizer.param_groups[0]["lr"] is lr
    assert schedule.state_dict()["table"][:3, 0].tolist() == [factor(step) for step in range(3)]


def test_copies_advance_with_their_own_steps() -> None:
    loop = Loop()
    schedule = polycast.RealStepLR(lr_scheduler.ExponentialLR(loop.optimizer, 0.5), loop.scaler, STEPS)
    for _ in range(3):
        loop.iterate(skip=False)
        schedule.step()
    copy, schedule_copy = deepcopy((loop, schedule))
    schedule_copy.step()  # no step was taken since
    assert copy.rates() == pytest.approx([0.0125, 0.0025])
    copy.scaler.scale(torch.ones(1))
    for _ in range(2):
        copy.iterate(skip=False)
        schedule_copy.step()
    assert copy.rates() == pytest.approx([0.003125, 0.000625])
    assert loop.rates() == pytest.approx([0.0125, 0.0025])
