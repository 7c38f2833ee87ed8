"""Optimizers that a trainer has wrapped: the scaler knows the one inside."""

from copy import deepcopy
from typing import Any

import polycast
import pytest
import torch
from polycast import backends

from tests.scaler.common import EACH_LOOK, INF, KINDS, LOOKS, OPTIMIZERS, SCALE, SHAPES, give, started


class Wrapper(torch.optim.Optimizer):
    """Has an optimizer, as the wrappers of trainers do, and the scaler that steps it, if any."""

    def __init__(self, optimizer: Any, scaler: Any = None) -> None:
        self.optimizer, self.scaler, self.called = optimizer, scaler, 0

    @property
    def param_groups(self) -> Any:  # type: ignore[override]
        return self.optimizer.param_groups

    def step(self, closure: Any = None) -> Any:
        self.called += 1
        return self.scaler.step(self.optimizer, closure) if self.scaler else self.optimizer.step(closure)


class Training:
    """Iterations of a kind of optimizer; looked at and stepped is what `given` makes of it."""

    def __init__(self, kind: str) -> None:
        self.params = [torch.ones(shape, requires_grad=True) for shape in SHAPES]
        self.optimizer: Any = OPTIMIZERS[kind](self.params)
        self.scaler = started()

    def iterate(self, seed: int, look: str, looked_at: Any, stepped: Any, bad: float | None) -> None:
        give(self.params, seed, bad)
        LOOKS[look](self.scaler, looked_at)
        if getattr(stepped, "scaler", None):
            stepped.step()
        else:
            self.scaler.step(stepped)
        self.scaler.update(SCALE)


@KINDS
@EACH_LOOK
@pytest.mark.parametrize("has_scaler", [True, False], ids=["steps by the scaler", "is stepped by it"])
def test_it_is_trained_as_without_wrapper(kind: str, look: str, has_scaler: bool) -> None:
    plain, training = Training(kind), Training(kind)
    inner = Wrapper(training.optimizer, training.scaler if has_scaler else None)
    wrapped = Wrapper(inner) if not has_scaler else inner
    for number in range(4):
        bad = INF if number == 2 else None
        plain.iterate(number, look, plain.optimizer, plain.optimizer, bad)
        training.iterate(number, look, wrapped, wrapped, bad)
        for one in (wrapped, training.optimizer):
            assert training.scaler.skipped(one).item() == (number == 2)
            assert training.scaler.non_finite(one) == plain.scaler.non_finite(plain.optimizer)
    for one in (wrapped, training.optimizer):
        assert training.scaler.skip_count(one).item() == 1
    assert training.scaler.skip_count().item() == 1  # a wrapper is no optimizer of its own
    assert all(map(torch.equal, training.params, plain.params))
    assert inner.called == (4 if has_scaler else 3)


@KINDS
def test_what_is_asked_twice_is_refused_of_both(kind: str) -> None:
    training = Training(kind)
    wrapped, scaler = Wrapper(training.optimizer), training.scaler
    give(training.params, 0)
    scaler.unscale_(wrapped)
    with pytest.raises(RuntimeError, match=r"^unscale_\(\) has already been called on this optimizer"):
        scaler.unscale_(training.optimizer)
    with pytest.raises(ValueError, match=r"^step_together was given one optimizer twice; name each once$"):
        scaler.step_together(wrapped, training.optimizer)
    scaler.step_together(wrapped)
    with pytest.raises(RuntimeError, match=r"^step\(\) has already been called since the last update"):
        scaler.step(training.optimizer)


@KINDS
def test_a_scaler_that_steps_what_steps_by_itself_again_is_refused(kind: str) -> None:
    training = Training(kind)
    give(training.params, 0)
    with pytest.raises(RuntimeError, match=r"^step\(\) has already been called since the last update"):
        training.scaler.step(Wrapper(training.optimizer, training.scaler))


def test_what_holds_an_optimizer_of_other_groups_is_not_taken_for_its_wrapper() -> None:
    one, other = Training("sync-free"), Training("sync-free")
    holder: Any = deepcopy(other.optimizer)
    holder.optimizer = one.optimizer
    give(one.params, 0, INF)
    one.scaler.step(one.optimizer)
    assert [one.scaler.skip_count(each).item() for each in (one.optimizer, holder)] == [1, 0]


def test_a_schedule_follows_a_wrapped_optimizer() -> None:
    training = Training("sync-free")
    wrapped = Wrapper(training.optimizer, training.scaler)
    schedule = polycast.SkipAwareLR(wrapped, lambda steps: 0.5**steps, training.scaler)
    for number in range(4):
        training.iterate(number, "clip_grad_norm", wrapped, wrapped, INF if number == 2 else None)
        schedule.step()
    assert schedule.get_last_lr() == pytest.approx([0.01 * 0.5**3])


@pytest.mark.parametrize("device", [None, "cpu"])
def test_the_scale_is_made_on_the_device_that_a_scaler_names(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a checkpoint is loaded before the first batch."""
    monkeypatch.setattr(backends, "current", lambda: "cpu")
    scaler: Any = polycast.GradScaler(device, init_scale=SCALE)
    scaler._lazy_init_scale_growth_tracker(scaler._device)
    assert (scaler.get_scale(), scaler._device) == (SCALE, "cpu")
