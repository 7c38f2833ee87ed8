"""What a gradient scaler tells of skipped steps, steps of all or none, and several optimizers in one iteration."""

from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor

from tests.optimizers import clones, parameters, same_bits, set_grads, tensors

INF, NAN = float("inf"), float("nan")
SCALE = 256.0
SHAPES = ((3,), (2, 2))
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sync-free": lambda params: syncfree.AdamW(params, lr=0.01),
    "fused": lambda params: torch.optim.AdamW(params, lr=0.01, fused=True),
    "for-loop": lambda params: torch.optim.AdamW(params, lr=0.01, foreach=False, fused=False),
}
KINDS = pytest.mark.parametrize("kind", OPTIMIZERS)
# What looks at the gradients before the step, if anything.
LOOKS: dict[str, Callable[[polycast.GradScaler, Any], object]] = {
    "step": lambda scaler, optimizer: None,  # noqa: ARG005
    "unscale_": lambda scaler, optimizer: scaler.unscale_(optimizer),
    "clip_grad_norm": lambda scaler, optimizer: scaler.clip_grad_norm(optimizer, 1.0),
}


def started(**options: Any) -> polycast.GradScaler:
    scaler = polycast.GradScaler(init_scale=SCALE, **options)
    scaler.scale(torch.ones(1))
    return scaler


def give(params: list[Tensor], seed: int, bad: float | None = None) -> None:
    """Give scaled gradients; one of the last is not finite if asked."""
    set_grads(params, seed, SCALE)
    if bad is not None:
        assert params[-1].grad is not None
        params[-1].grad.view(-1)[-1] = bad


@KINDS
def test_skips_are_told_and_counted(kind: str) -> None:
    params = parameters(*SHAPES)
    scaler, optimizer = started(), OPTIMIZERS[kind](params)
    assert (scaler.skipped(optimizer).item(), scaler.skip_count(optimizer).item()) == (False, 0)
    count = 0
    for number, bad in enumerate([None, INF, NAN, None, -INF]):
        give(params, number, bad)
        before = [tensor.detach().clone() for tensor in tensors(optimizer)]
        scaler.step(optimizer)
        count += bad is not None
        for _ in range(2):  # the update changes nothing of it
            skipped, total = scaler.skipped(optimizer), scaler.skip_count(optimizer)
            assert (skipped.dtype, total.dtype, skipped.shape, total.shape) == (torch.bool, torch.int64, (), ())
            assert (skipped.item(), total.item()) == (bad is not None, count)
            scaler.update(SCALE)
        changed = [not same_bits(*pair) for pair in zip(tensors(optimizer), before, strict=False)]
        assert not any(changed) if bad is not None else all(changed[:2])


@KINDS
def test_each_optimizer_decides_for_itself(kind: str) -> None:
    finite, infinite = parameters(*SHAPES), parameters(*SHAPES, seed=1)
    untouched = clones(infinite)
    scaler = started()
    optimizers = [OPTIMIZERS[kind](params) for params in (finite, infinite)]
    give(finite, 0)
    give(infinite, 0, INF)
    scaler.unscale_(optimizers[0])
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
    assert [scaler.skipped(optimizer).item() for optimizer in optimizers] == [False, True]
    assert scaler.get_scale() == SCALE / 2
    assert all(map(same_bits, infinite, untouched))
    assert not any(map(same_bits, finite, parameters(*SHAPES)))


@pytest.mark.parametrize(
    "kinds", [("sync-free",) * 2, ("fused",) * 2, ("sync-free", "fused"), ("sync-free", "for-loop")]
)
@pytest.mark.parametrize("look", LOOKS)
def test_all_step_together_or_none(look: str, kinds: tuple[str, str]) -> None:
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


@KINDS
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("named", [True, False])
def test_parameters_that_are_not_finite_are_named(named: bool, look: str, kind: str) -> None:
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


@KINDS
@pytest.mark.parametrize("report", [True, False])
def test_a_trainer_may_watch_for_calls_of_step(kind: str, report: bool) -> None:
    params = parameters(*SHAPES)
    scaler, optimizer = started(report_skips=report), OPTIMIZERS[kind](params)
    calls: list[int] = []
    optimizer.register_step_pre_hook(lambda *_: calls.append(number))
    for number, bad in enumerate([None, INF, None, NAN]):
        give(params, number, bad)
        before = clones(params)
        assert scaler.step(optimizer) is None
        scaler.update()
        assert all(map(same_bits, params, before)) is (bad is not None)
    assert scaler.skip_count(optimizer).item() == 2
    # Torch tells its fused optimizers to skip by themselves; only report_skips is asked about.
    assert calls == [0, 2] if report or kind == "for-loop" else calls == [0, 1, 2, 3]


@pytest.mark.parametrize("bad", [None, INF])
def test_together_a_trainer_may_watch_too(bad: float | None) -> None:
    scaler = started(report_skips=True)
    pair = [parameters(*SHAPES) for _ in range(2)]
    optimizers = [OPTIMIZERS["sync-free"](params) for params in pair]
    calls: list[Any] = []
    for params, optimizer in zip(pair, optimizers, strict=True):
        optimizer.register_step_pre_hook(lambda *arguments: calls.append(arguments[0]))
        give(params, 0, bad if optimizer is optimizers[1] else None)
    scaler.step_together(*optimizers)
    assert calls == ([] if bad else optimizers)


def test_a_step_returns_what_the_optimizers_step_returns() -> None:
    class Telling(syncfree.SGD):
        def step(self, *args: Any, **kwargs: Any) -> float:  # type: ignore[override]
            super().step(*args, **kwargs)
            return 3.0

    params = parameters(*SHAPES)
    give(params, 0)
    assert started().step(Telling(params, lr=0.1)) == 3.0


def test_an_optimizer_is_not_kept_alive() -> None:
    import gc
    import weakref

    params = parameters(*SHAPES)
    scaler, optimizer = started(), OPTIMIZERS["sync-free"](params)
    give(params, 0)
    scaler.step(optimizer)
    scaler.update()
    left = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert left() is None
