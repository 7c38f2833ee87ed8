"""How a gradient scaler calls the step of an optimizer, and what it knows of optimizers and their wrappers."""

import gc
import weakref
from copy import deepcopy
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree

from tests.scaler.common import INF, LOOKS, NAN, OPTIMIZERS, SCALE, SHAPES, Loop, Wrapper, give, started
from tests.support.optimizers import clones, parameters, same_bits, set_grads


@pytest.mark.parametrize(
    ("kind", "look", "named"),
    [
        ("sync-free", "step", False),
        ("sync-free", "unscale_", True),
        ("sync-free", "clip_grad_norm", True),
        ("fused", "step", True),
        ("for-loop", "clip_grad_norm", True),
    ],
)
def test_parameters_that_are_not_finite_are_named(kind: str, look: str, named: bool) -> None:
    params = parameters((2,), (3,), (), (2, 2))
    names = [f"param_groups[{group}]['params'][{index}]" for group in range(2) for index in range(2)]
    if named:
        names = ["body.weight", "body.bias", "head.weight", "head.bias"]
    given: list[Any] = list(zip(names, params, strict=True)) if named else params
    optimizer = OPTIMIZERS[kind]([{"params": given[:2]}, {"params": given[2:], "lr": 0.1}])
    scaler = started()
    assert scaler.non_finite(optimizer) == []
    for bad in ([1, 3], [0], [], [0, 1, 2, 3]):
        set_grads(params, 0, SCALE)
        for index in bad:
            params[index].grad = torch.full_like(params[index], (INF, NAN)[index % 2])
        if 2 not in bad:
            params[2].grad = None
        LOOKS[look](scaler, optimizer)
        for done in (lambda: scaler.step(optimizer), scaler.update, optimizer.zero_grad):
            done()  # kept until the gradients are looked at again
            assert scaler.non_finite(optimizer) == [names[index] for index in bad]


@pytest.mark.parametrize(
    ("kind", "on_host", "together"),
    [
        ("sync-free", True, False),
        ("sync-free", False, False),
        ("fused", True, False),
        ("fused", False, False),
        ("for-loop", False, False),
        ("sync-free", True, True),
    ],
)
def test_a_trainer_may_watch_for_calls_of_step(kind: str, on_host: bool, together: bool) -> None:
    """Fused and sync-free steps skip by themselves, so they are called unless skip_on_host is asked for."""
    pair = [parameters(*SHAPES, seed=seed) for seed in range(2)]
    scaler, optimizers = started(skip_on_host=on_host), [OPTIMIZERS[kind](params) for params in pair]
    calls: list[int] = []
    optimizers[0].register_step_pre_hook(lambda *_: calls.append(number))
    for number, bad in enumerate([None, INF, None, NAN]):
        give(pair[0], number, None if together else bad)
        give(pair[1], number, bad)
        before = clones(pair[0])
        assert (scaler.step_together(*optimizers) if together else scaler.step(optimizers[0])) is None
        scaler.update()
        assert all(map(same_bits, pair[0], before)) is (bad is not None)
    assert scaler.skip_count(optimizers[0]).item() == 2
    assert calls == ([0, 2] if on_host or kind == "for-loop" else [0, 1, 2, 3])


@pytest.mark.parametrize("library", [syncfree, torch.optim], ids=["sync-free", "torch"])
def test_an_optimizer_is_not_kept_alive_and_may_be_equal_to_others_and_have_no_hash(library: Any) -> None:
    """Its step may return something."""

    class Equal(library.SGD):  # type: ignore[misc]
        def step(self, *args: Any, **kwargs: Any) -> float:
            super().step(*args, **kwargs)
            return 3.0

        def __eq__(self, _: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    pair = [parameters(*SHAPES, seed=seed) for seed in range(2)]
    optimizers = [Equal(params, lr=0.1) for params in pair]
    scaler = started()
    for optimizer, params, bad in zip(optimizers, pair, (INF, None), strict=True):
        give(params, 0, bad)
        assert scaler.step(optimizer) == (None if bad and library is torch.optim else 3.0)
    scaler.update()
    assert [scaler.skipped(each).item() for each in optimizers] == [True, False]
    left = weakref.ref(optimizers.pop())
    del optimizer
    gc.collect()
    assert left() is None
    assert scaler.skip_count() == 1  # of the one that there is


def test_what_is_asked_without_an_optimizer_is_asked_of_the_one_there_is() -> None:
    loop = Loop(polycast.GradScaler())
    for grad in (1.0, INF):
        loop.iterate(grad)
    skipped, count = loop.scaler.skipped(), loop.scaler.skip_count()
    assert (skipped.item(), skipped.dtype, count.item(), count.dtype) == (True, torch.bool, 1, torch.int64)
    assert loop.scaler.non_finite() == ["param_groups[0]['params'][0]"]


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("has_scaler", [True, False], ids=["steps by the scaler", "is stepped by it"])
def test_a_wrapper_and_what_it_wraps_are_one_optimizer(kind: str, has_scaler: bool) -> None:
    """Clipped by the wrapper, or a wrapper of it, and stepped by either, it trains as without one."""
    trained = []
    for is_wrapped in (False, True):
        params, scaler = parameters(*SHAPES), started()
        optimizer = OPTIMIZERS[kind](params)
        inner: Any = Wrapper(optimizer, scaler if has_scaler else None) if is_wrapped else optimizer
        outer = inner if has_scaler or not is_wrapped else Wrapper(inner)
        for number, bad in enumerate([None, INF, None]):
            give(params, number, bad)
            scaler.clip_grad_norm(outer, 1.0)
            if has_scaler and is_wrapped:
                outer.step()
            else:
                scaler.step(outer)
            scaler.update(SCALE)
            assert scaler.skipped(outer).item() is scaler.skipped(optimizer).item() is (bad is not None)
        assert scaler.skip_count().item() == 1  # a wrapper is no optimizer of its own
        trained.append(params)
    assert all(map(same_bits, *trained))
    assert inner.called == (3 if has_scaler else 2)


def test_what_holds_an_optimizer_of_other_groups_is_not_taken_for_its_wrapper() -> None:
    loop = Loop(started())
    holder: Any = deepcopy(loop.optimizer)
    holder.optimizer = loop.optimizer
    loop.iterate(INF)
    assert [loop.scaler.skip_count(each).item() for each in (loop.optimizer, holder)] == [1, 0]
