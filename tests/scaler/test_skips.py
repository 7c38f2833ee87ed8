"""Steps of all or none, the names of what is not finite, and how a gradient scaler calls the step of an optimizer."""

import gc
import weakref
from typing import Any

import pytest
import torch
from polycast import syncfree

from tests.scaler.common import INF, LOOKS, NAN, OPTIMIZERS, SCALE, SHAPES, give, started
from tests.support.optimizers import clones, parameters, same_bits, set_grads


@pytest.mark.parametrize(
    ("kinds", "look"),
    [
        (("sync-free", "sync-free"), "step"),
        (("sync-free", "sync-free"), "clip_grad_norm"),
        (("fused", "fused"), "step"),
        (("sync-free", "fused"), "unscale_"),
        (("sync-free", "for-loop"), "step"),
        (("sync-free", "for-loop"), "clip_grad_norm"),
    ],
)
def test_all_step_together_or_none(kinds: tuple[str, str], look: str) -> None:
    pair = [parameters(*SHAPES, seed=seed) for seed in range(2)]
    alone = [clones(params) for params in pair]
    together, apart = started(), started()
    optimizers, others = (
        [OPTIMIZERS[kind](params) for kind, params in zip(kinds, lists, strict=True)] for lists in (pair, alone)
    )
    for number, bad in enumerate([(None, None), (INF, None), (None, NAN), (None, None), (INF, INF)]):
        skips = bad != (None, None)
        for params, value in zip(pair, bad, strict=True):
            give(params, number, value)
        LOOKS[look](together, optimizers[1])
        together.step_together(*optimizers)
        with pytest.raises(RuntimeError, match=r"^step\(\) has already been called since the last update\(\)\.$"):
            together.step_together(*optimizers)
        together.update()
        assert together.get_scale() == (SCALE / 2 if skips else SCALE)
        together.update(SCALE)
        assert [together.skipped(optimizer).item() for optimizer in optimizers] == [skips, skips]
        if not skips:
            for params, optimizer in zip(alone, others, strict=True):
                give(params, number)
                if optimizer is others[1]:
                    LOOKS[look](apart, optimizer)
                apart.step(optimizer)
            apart.update(SCALE)
        for params, wanted in zip(pair, alone, strict=True):
            assert all(map(same_bits, params, wanted))
    assert [together.skip_count(optimizer).item() for optimizer in optimizers] == [3, 3]


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
    names = ["body.weight", "body.bias", "head.weight", "head.bias"]
    places = [f"param_groups[{group}]['params'][{index}]" for group in range(2) for index in range(2)]
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
        if look != "step":
            assert len(scaler.non_finite(optimizer)) == len(bad)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        for _ in range(2):  # kept until the gradients are looked at again
            assert scaler.non_finite(optimizer) == [(names if named else places)[index] for index in bad]


@pytest.mark.parametrize(
    ("kind", "on_host", "together"),
    [
        *((kind, on_host, False) for kind in OPTIMIZERS for on_host in (True, False)),
        ("sync-free", True, True),
        ("for-loop", False, True),
    ],
)
def test_a_trainer_may_watch_for_calls_of_step(kind: str, on_host: bool, together: bool) -> None:
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
    # Torch tells its fused optimizers to skip by themselves; only skip_on_host is asked about.
    assert calls == [0, 2] if on_host or kind == "for-loop" else calls == [0, 1, 2, 3]


def test_a_step_returns_what_the_optimizers_step_returns() -> None:
    class Telling(syncfree.SGD):
        def step(self, *args: Any, **kwargs: Any) -> float:  # type: ignore[override]
            super().step(*args, **kwargs)
            return 3.0

    params = parameters(*SHAPES)
    give(params, 0)
    assert started().step(Telling(params, lr=0.1)) == 3.0


@pytest.mark.parametrize("library", [syncfree, torch.optim], ids=["sync-free", "torch"])
def test_an_optimizer_is_not_kept_alive_and_may_be_equal_to_others_and_have_no_hash(library: Any) -> None:
    class Equal(library.SGD):  # type: ignore[misc]
        def __eq__(self, _: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    pair = [parameters(*SHAPES, seed=seed) for seed in range(2)]
    optimizers = [Equal(params, lr=0.1) for params in pair]
    scaler = started()
    give(pair[0], 0, INF)
    give(pair[1], 0)
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
    assert [scaler.skipped(optimizer).item() for optimizer in optimizers] == [True, False]
    left = weakref.ref(optimizers.pop())
    del optimizer
    gc.collect()
    assert left() is None
    assert scaler.get_scale() == SCALE / 2
