"""Optimizers that a trainer has wrapped: the scaler knows the one inside."""

from copy import deepcopy
from typing import Any

import polycast
import pytest
import torch

from tests.scaler.common import INF, LOOKS, OPTIMIZERS, SCALE, SHAPES, Wrapper, give, started


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


@pytest.mark.parametrize(
    ("kind", "look"),
    [("sync-free", "step"), ("sync-free", "clip_grad_norm"), ("fused", "step"), ("for-loop", "unscale_")],
)
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
