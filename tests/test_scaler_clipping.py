"""clip_grad_norm: the norm it returns, what the step makes of it, and when it may be called."""

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import polycast
import pytest
import torch
from polycast import region, syncfree
from torch import Tensor

from tests.optimizers import clones, parameters, same_bits, set_grads, tensors

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


@pytest.fixture(autouse=True)
def _no_region_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests' regions ran in is forgotten, so that no scaler tells that it is not needed."""
    monkeypatch.setattr(region, "_last", {})


def started(scaler: Any = None) -> Any:
    scaler = polycast.GradScaler(init_scale=SCALE) if scaler is None else scaler
    scaler.scale(torch.ones(1))
    return scaler


def reference(clips: Iterable[tuple[float, float]], name: str, params: list[Tensor], steps: int = 4) -> list[Tensor]:
    """Train the documents' way with torch's scaler; return the norms."""
    scaler, optimizer = started(torch.amp.GradScaler("cpu", init_scale=SCALE)), TORCHS[name](params)
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
        compare(lambda s, o: (s.unscale_(o), s.clip_grad_norm(o, *clips[0]))[1], clips, OURS[name], name)  # type: ignore[func-returns-value]
    compare(lambda s, o: s.clip_grad_norm(o, *clips[0]), clips, TORCHS[name], name)
    compare(lambda s, o: (s.unscale_(o), s.clip_grad_norm(o, *clips[0]))[1], clips, TORCHS[name], name)  # type: ignore[func-returns-value]


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

    wanted = by_value(started(torch.amp.GradScaler("cpu", init_scale=SCALE)), TORCHS[name])
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
    with pytest.raises(ValueError, match="norm_type is .*positive"):
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
    assert torch.equal(norm, torch.nn.utils.clip_grad_norm_(others, 0.5, 3.0))
    assert all(torch.equal(mine, his) for mine, his in zip(grads(params), grads(others), strict=True))


def grads(params: Iterable[Tensor]) -> list[Tensor]:
    return [param.grad for param in params if param.grad is not None]


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
