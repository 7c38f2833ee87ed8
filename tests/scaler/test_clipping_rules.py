"""When clip_grad_norm may be called, what it refuses, and what it does where a gradient is not finite."""

import math
from itertools import pairwise
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree

from tests.optimizers import clones, parameters, same_bits, set_grads, tensors
from tests.scaler.test_clipping import NORM_TYPES, OURS, SCALE, SHAPES, TORCHS, grads, started

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("bad", [INF, -INF, NAN])
@pytest.mark.parametrize("norm_type", NORM_TYPES)
@pytest.mark.parametrize("name", [*OURS, "SGD fused"])
def test_with_infinities_inside_nothing_is_stepped(name: str, norm_type: float, bad: float) -> None:
    params = parameters(*SHAPES)
    optimizer, scaler = (OURS | {"SGD fused": TORCHS["SGD fused"]})[name](params), started()
    for skip in (False, True, False):
        set_grads(params, 0, SCALE)
        assert params[1].grad is not None
        if skip:
            params[1].grad[2, 3] = bad
        before = [tensor.detach().clone() for tensor in tensors(optimizer)]
        norm = scaler.clip_grad_norm(optimizer, 1.0, norm_type)
        assert math.isfinite(norm.item()) is not skip
        scaler.step(optimizer)
        scaler.update()
        assert scaler.skipped(optimizer).item() is skip
        if before[4:] or skip:
            assert all(map(same_bits, tensors(optimizer), before)) is skip
    assert scaler.get_scale() == SCALE / 2
    assert scaler.skip_count(optimizer).item() == 1


@pytest.mark.parametrize("library", [OURS, TORCHS], ids=["sync-free", "torch"])
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("max_norm", [0.0, -1.0, NAN])
def test_the_largest_norm_is_positive(max_norm: float, enabled: bool, library: Any) -> None:
    scaler, params = polycast.GradScaler(enabled=enabled), parameters(*SHAPES)
    scaler.scale(torch.ones(1))
    set_grads(params, 0)
    with pytest.raises(ValueError, match=rf"^max_norm is {max_norm}; it takes a positive number$"):
        scaler.clip_grad_norm(library["SGD"](params), max_norm)


@pytest.mark.parametrize("library", [OURS, TORCHS], ids=["sync-free", "torch"])
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("norm_type", [0.0, -1.0, NAN])
def test_the_norm_type_is_positive(norm_type: float, enabled: bool, library: Any) -> None:
    scaler, params = polycast.GradScaler(enabled=enabled), parameters(*SHAPES)
    scaler.scale(torch.ones(1))
    set_grads(params, 0)
    with pytest.raises(ValueError, match=r"norm_type is .*positive"):
        scaler.clip_grad_norm(library["SGD"](params), 1.0, norm_type)


@pytest.mark.parametrize("library", [OURS, TORCHS], ids=["sync-free", "torch"])
def test_after_the_step_it_is_too_late(library: Any) -> None:
    scaler, params = started(), parameters(*SHAPES)
    set_grads(params, 0)
    optimizer = library["SGD"](params)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"^clip_grad_norm\(\) is being called after step\(\)\.$"):
        scaler.clip_grad_norm(optimizer, 1.0)
    scaler.update()
    assert scaler.clip_grad_norm(optimizer, 1.0) > 0


def test_a_disabled_scaler_clips_as_torch_does() -> None:
    scaler, params = polycast.GradScaler(enabled=False), parameters(*SHAPES)
    others = clones(params)
    for leaves in (params, others):
        set_grads(leaves, 0)
    norm = scaler.clip_grad_norm(OURS["SGD"](params), 0.5, 3.0)
    torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(others, 0.5, 3.0))
    torch.testing.assert_close(grads(params), grads(others))


def test_one_clipping_does_not_reach_into_the_next_iteration() -> None:
    weight = torch.zeros(1, requires_grad=True)
    scaler, optimizer = started(), syncfree.SGD([weight], lr=1.0)
    values = [0.0]
    for clip in (True, False, True):
        weight.grad = torch.full((1,), 4 * SCALE)
        if clip:
            scaler.clip_grad_norm(optimizer, 1.0)
        scaler.step(optimizer)
        scaler.update()
        values.append(weight.item())
    steps = [before - after for before, after in pairwise(values)]
    assert steps == pytest.approx([1.0, 4.0, 1.0], rel=1e-5)
