"""clip_grad_norm: the norm it returns, what the step makes of it, and when it may be called."""

from collections.abc import Callable, Iterable
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.optimizers import clones, parameters, same_bits, set_grads

INF, NAN = float("inf"), float("nan")
SCALE = 1024.0
SHAPES = ((7,), (3, 5), ())
NORM_TYPES = [1.0, 2, 2.0, 3.0, 0.5, INF]
Call = Callable[[Any, Any], object]

# Of one name they take the same steps.
OURS: dict[str, Any] = {
    "SGD": lambda params: syncfree.SGD(params, lr=0.1, momentum=0.9),
    "AdamW": lambda params: syncfree.AdamW(params, lr=0.01, eps=1e-2),
}
TORCHS: dict[str, Any] = {
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "AdamW": lambda params: torch.optim.AdamW(params, lr=0.01, eps=1e-2),
    "SGD fused": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, fused=True),
    "AdamW fused": lambda params: torch.optim.AdamW(params, lr=0.01, eps=1e-2, fused=True),
}


def started(scaler: Any = None) -> Any:
    scaler = polycast.GradScaler(init_scale=SCALE) if scaler is None else scaler
    scaler.scale(torch.ones(1))
    return scaler


def grads(params: Iterable[Tensor]) -> list[Tensor]:
    return [param.grad for param in params if param.grad is not None]


def reference(clips: Iterable[tuple[float, float]], name: str, params: list[Tensor], steps: int = 4) -> list[Tensor]:
    """Train the documents' way with torch's scaler; return the norms."""
    scaler, optimizer = started(Scaler("cpu", init_scale=SCALE)), TORCHS[name](params)
    norms = []
    for number in range(steps):
        set_grads(params, number, SCALE)
        scaler.unscale_(optimizer)
        norms += [torch.nn.utils.clip_grad_norm_(params, *clip) for clip in clips]
        scaler.step(optimizer)
        scaler.update()
    return norms


def compare(clip: Call, clips: list[tuple[float, float]], ours: Any, name: str) -> None:
    """A loop that calls `clip` between backward and step trains as the documents' way does, and sees the same norms."""
    params = parameters(*SHAPES)
    others = clones(params)
    norms = reference(clips, name, others)
    for (max_norm, _), norm in zip(clips * 4, norms, strict=True):
        assert len(clips) > 1 or norm > max_norm  # so that there is something to clip
    scaler, optimizer = started(), ours(params)
    found: list[Tensor] = []
    for number in range(4):
        set_grads(params, number, SCALE)
        result = clip(scaler, optimizer)
        found += result if isinstance(result, list) else [result]  # type: ignore[list-item]
        scaler.step(optimizer)
        scaler.update()
    torch.testing.assert_close(params, others, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(found, norms, rtol=2e-6, atol=0)


@pytest.mark.parametrize("norm_type", NORM_TYPES)
@pytest.mark.parametrize("name", TORCHS)
def test_the_step_clips_what_is_left_unscaled(name: str, norm_type: float) -> None:
    clips = [(0.25, norm_type)]
    if name in OURS:
        compare(lambda s, o: s.clip_grad_norm(o, *clips[0]), clips, OURS[name], name)
        compare(lambda s, o: (s.unscale_(o), s.clip_grad_norm(o, *clips[0]))[1], clips, OURS[name], name)
    compare(lambda s, o: s.clip_grad_norm(o, *clips[0]), clips, TORCHS[name], name)
    compare(lambda s, o: (s.unscale_(o), s.clip_grad_norm(o, *clips[0]))[1], clips, TORCHS[name], name)


@pytest.mark.parametrize("unscaled", [False, True])
@pytest.mark.parametrize("clips", [[(2.0, 2.0), (0.5, 2.0)], [(0.5, 2.0), (2.0, 2.0)], [(1.0, INF), (1.0, 1.0)]])
def test_each_of_several_clips_what_the_ones_before_leave(clips: list[tuple[float, float]], unscaled: bool) -> None:
    def clip(scaler: Any, optimizer: Any) -> list[Tensor]:
        if unscaled:
            scaler.unscale_(optimizer)
        return [scaler.clip_grad_norm(optimizer, *arguments) for arguments in clips]

    for name, ours in (*OURS.items(), *TORCHS.items()):
        compare(clip, clips, ours, name)


def test_before_and_after_unscale() -> None:
    def clip(scaler: Any, optimizer: Any) -> list[Tensor]:
        first = scaler.clip_grad_norm(optimizer, 2.0)
        scaler.unscale_(optimizer)
        return [first, scaler.clip_grad_norm(optimizer, 0.5)]

    compare(clip, [(2.0, 2.0), (0.5, 2.0)], OURS["SGD"], "SGD")


@pytest.mark.parametrize("name", OURS)
def test_the_documents_way_works_to_the_letter(name: str) -> None:
    def by_norm(scaler: Any, optimizer: Any) -> Tensor:
        scaler.unscale_(optimizer)
        return torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.25)

    compare(by_norm, [(0.25, 2.0)], OURS[name], name)

    def by_value(scaler: Any, optimizer: Any) -> list[Tensor]:
        params = parameters(*SHAPES)
        optimizer = optimizer(params)
        for number in range(4):
            set_grads(params, number, SCALE)
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_value_(params, 0.5)
            scaler.step(optimizer)
            scaler.update()
        return params

    wanted = by_value(started(Scaler("cpu", init_scale=SCALE)), TORCHS[name])
    torch.testing.assert_close(by_value(started(), OURS[name]), wanted, rtol=2e-6, atol=2e-6)


def test_small_gradients_are_left_as_they_are() -> None:
    params = parameters(*SHAPES)
    others = clones(params)
    scaler, clipped, plain = started(), OURS["AdamW"](params), OURS["AdamW"](others)
    set_grads(params, 0, SCALE)
    set_grads(others, 0)
    norm = scaler.clip_grad_norm(clipped, 1e6)
    scaler.step(clipped)
    plain.step()
    torch.testing.assert_close(norm, torch.nn.utils.get_total_norm([p.grad for p in others if p.grad is not None]))
    assert all(map(same_bits, params, others))


@pytest.mark.parametrize("norm_type", NORM_TYPES)
def test_an_empty_gradient_adds_nothing_to_the_norm(norm_type: float) -> None:
    """Torch's clip_grad_norm_ raises for the norm of an empty gradient if norm_type is infinity."""
    params = parameters(*SHAPES, (2, 0))
    set_grads(params, 0, SCALE)
    norm = started().clip_grad_norm(OURS["SGD"](params), 1.0, norm_type)
    torch.testing.assert_close(norm, torch.nn.utils.get_total_norm(grads(params)[:-1], norm_type) / SCALE)


def test_a_hook_sees_gradients_scaled_and_unclipped() -> None:
    params = parameters(*SHAPES)
    seen: list[Tensor] = []

    def look(optimizer: Any, *_: object) -> None:
        seen.extend(param.grad.clone() for param in optimizer.param_groups[0]["params"])

    for ours in (True, False):
        optimizer = (OURS if ours else TORCHS)["SGD"](params)
        optimizer.register_step_pre_hook(look)
        scaler = started()
        set_grads(params, 0, SCALE)
        given = [param.grad.clone() for param in params if param.grad is not None]
        seen.clear()
        norm = scaler.clip_grad_norm(optimizer, 0.5)
        scaler.step(optimizer)
        factor = 1.0 if ours else 0.5 / norm.item() / SCALE
        torch.testing.assert_close(seen, [grad * factor for grad in given], rtol=0 if ours else 1e-5, atol=0)
