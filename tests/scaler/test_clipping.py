"""clip_grad_norm: the norm it returns, what the step makes of it, and what it does where a gradient is not finite."""

import math
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.optimizers import clones, parameters, same_bits, set_grads, tensors
from tests.scaler.common import INF, NAN, started

SCALE = 1024.0
SHAPES = ((7,), (3, 5), ())
NORM_TYPES = pytest.mark.parametrize("norm_type", [1.0, 2, 3.0, 0.5, INF])
Clip = tuple[float, float]

# Those whose names begin alike take the same steps.
OPTIMIZERS: dict[str, Any] = {
    "SGD sync-free": lambda params: syncfree.SGD(params, lr=0.1, momentum=0.9),
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "SGD fused": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, fused=True),
    "AdamW sync-free": lambda params: syncfree.AdamW(params, lr=0.01, eps=1e-2),
    "AdamW": lambda params: torch.optim.AdamW(params, lr=0.01, eps=1e-2),
    "AdamW fused": lambda params: torch.optim.AdamW(params, lr=0.01, eps=1e-2, fused=True),
}
EACH = pytest.mark.parametrize("name", OPTIMIZERS)


def clip_all(scaler: Any, optimizer: Any, clips: list[Clip]) -> list[Tensor]:
    return [scaler.clip_grad_norm(optimizer, *clip) for clip in clips]


def unscale_and_clip(scaler: Any, optimizer: Any, clips: list[Clip]) -> list[Tensor]:
    scaler.unscale_(optimizer)
    return clip_all(scaler, optimizer, clips)


def clip_unscale_and_clip(scaler: Any, optimizer: Any, clips: list[Clip]) -> list[Tensor]:
    norms = clip_all(scaler, optimizer, clips[:1])
    if isinstance(optimizer, (syncfree.SGD, syncfree.AdamW)):  # any other's gradients are unscaled by now
        scaler.unscale_(optimizer)
    return norms + clip_all(scaler, optimizer, clips[1:])


def documented(scaler: Any, optimizer: Any, clips: list[Clip]) -> list[Tensor]:
    scaler.unscale_(optimizer)
    return [torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], *clip) for clip in clips]


WAYS = pytest.mark.parametrize("way", [clip_all, unscale_and_clip, clip_unscale_and_clip, documented])


def train(
    scaler: Any, optimizer: Any, params: list[Tensor], way: Callable[..., list[Tensor]], clips: Any
) -> list[Tensor]:
    """Return the norms of four steps."""
    norms = []
    for number in range(4):
        set_grads(params, number, SCALE)
        norms += way(started(scaler), optimizer, clips)
        scaler.step(optimizer)
        scaler.update()
    return norms


@EACH
@WAYS
@NORM_TYPES
@pytest.mark.parametrize("max_norms", [(0.25,), (2.0, 0.5), (0.5, 2.0)])
def test_a_step_clips_as_the_documents_way_does(name: str, way: Any, norm_type: float, max_norms: list[float]) -> None:
    clips = [(max_norm, norm_type) for max_norm in max_norms]
    params = parameters(*SHAPES)
    others = clones(params)
    wanted = train(Scaler("cpu", init_scale=SCALE), OPTIMIZERS[name.split()[0]](others), others, documented, clips)
    found = train(polycast.GradScaler(init_scale=SCALE), OPTIMIZERS[name](params), params, way, clips)
    assert max(wanted) > max_norms[0]  # so that there is something to clip
    torch.testing.assert_close(params, others, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(found, wanted, rtol=2e-6, atol=0)


@pytest.mark.parametrize("name", ["SGD sync-free", "AdamW sync-free"])
def test_small_gradients_are_left_as_they_are(name: str) -> None:
    params = parameters(*SHAPES)
    others = clones(params)
    scaler, clipped, plain = started(init_scale=SCALE), OPTIMIZERS[name](params), OPTIMIZERS[name](others)
    set_grads(params, 0, SCALE)
    set_grads(others, 0)
    scaler.clip_grad_norm(clipped, 1e6)
    scaler.step(clipped)
    plain.step()
    assert all(map(same_bits, params, others))


@NORM_TYPES
def test_an_empty_gradient_adds_nothing_to_the_norm(norm_type: float) -> None:
    """Torch's clip_grad_norm_ raises for the norm of an empty gradient if norm_type is infinity."""
    params = parameters(*SHAPES, (2, 0))
    set_grads(params, 0, SCALE)
    grads = [param.grad for param in params[:-1] if param.grad is not None]
    norm = started(init_scale=SCALE).clip_grad_norm(OPTIMIZERS["SGD sync-free"](params), 1.0, norm_type)
    torch.testing.assert_close(norm, torch.nn.utils.get_total_norm(grads, norm_type) / SCALE)


@pytest.mark.parametrize("name", ["SGD sync-free", "SGD"])
def test_a_hook_sees_gradients_scaled_and_unclipped_if_the_step_clips(name: str) -> None:
    params: list[Any] = parameters(*SHAPES)
    seen: list[Tensor] = []
    optimizer, scaler = OPTIMIZERS[name](params), started(init_scale=SCALE)
    optimizer.register_step_pre_hook(lambda *_: seen.extend(param.grad.clone() for param in params))
    set_grads(params, 0, SCALE)
    given = [param.grad.clone() for param in params]
    norm = scaler.clip_grad_norm(optimizer, 0.5)
    scaler.step(optimizer)
    factor = 1.0 if "sync-free" in name else 0.5 / norm.item() / SCALE
    torch.testing.assert_close(seen, [grad * factor for grad in given], rtol=1e-5, atol=0)


@pytest.mark.parametrize("bad", [INF, -INF, NAN])
@NORM_TYPES
@EACH
def test_with_infinities_inside_nothing_is_stepped(name: str, norm_type: float, bad: float) -> None:
    params = parameters(*SHAPES)
    optimizer, scaler = OPTIMIZERS[name](params), started(init_scale=SCALE)
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
        assert all(map(same_bits, tensors(optimizer), before)) is skip
    assert scaler.get_scale() == SCALE / 2
    assert scaler.skip_count(optimizer).item() == 1


@pytest.mark.parametrize("name", ["SGD sync-free", "SGD"])
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("wrong", [0.0, -1.0, NAN])
def test_norms_are_positive(wrong: float, enabled: bool, name: str) -> None:
    scaler, params = started(polycast.GradScaler(enabled=enabled)), parameters(*SHAPES)
    optimizer = OPTIMIZERS[name](params)
    set_grads(params, 0)
    with pytest.raises(ValueError, match=rf"^max_norm is {wrong}; it takes a positive number$"):
        scaler.clip_grad_norm(optimizer, wrong)
    with pytest.raises(ValueError, match=rf"^norm_type is {wrong}; it takes a positive number, or infinity$"):
        scaler.clip_grad_norm(optimizer, 1.0, wrong)
    assert scaler.clip_grad_norm(optimizer, 1.0, "inf") > 0  # as torch's function takes it


@NORM_TYPES
def test_a_disabled_scaler_clips_as_torch_does(norm_type: float) -> None:
    scaler, params = polycast.GradScaler(enabled=False), parameters(*SHAPES)
    others = clones(params)
    for leaves in (params, others):
        set_grads(leaves, 0)
    norm = scaler.clip_grad_norm(OPTIMIZERS["SGD sync-free"](params), 0.5, norm_type)
    torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(others, 0.5, norm_type))
    torch.testing.assert_close([param.grad for param in params], [param.grad for param in others])
