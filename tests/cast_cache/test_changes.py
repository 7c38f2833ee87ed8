"""A cast is never reused for a weight that has changed since, however it changed, nor in another dtype or grad mode."""

import copy
import io
from collections.abc import Callable
from contextlib import nullcontext

import polycast
import pytest
import torch
from polycast import _compiled, cast_cache
from torch import Tensor, nn

from tests.cast_cache.stock import count_casts, module_of
from tests.cast_cache.writes import ASSIGNED, CHANGES, NOT_ON_XLA, Change, without_grad

BF16, F32 = torch.bfloat16, torch.float32


def values(device: str = "cpu") -> Tensor:
    """Four by four values, none of them a number of bfloat16."""
    return (torch.rand(4, 4) + 1.001).to(device)


# What each category does to a weight, of the dtype that makes it cast.
USE: dict[str, tuple[torch.dtype, Callable[[Tensor, Tensor], Tensor]]] = {
    "lower_precision_fp": (F32, lambda x, weight: x.to(BF16) @ weight),
    "fp32": (BF16, lambda x, weight: torch.nn.functional.mse_loss(x, weight, reduction="none")),
    # A device promotes in one of these ops, or in both.
    "promote": (BF16, lambda x, weight: torch.cat([x, weight, torch.atan2(x, weight)])),
}


def check(device: str, category: str, change: Change, grad: bool, kept: bool, gap: bool) -> None:
    """Use a weight until its cast is reused, change it, and use it again, in the same region or in the next one."""
    dtype, use = USE[category]
    weight, x = nn.Parameter(values(device).to(dtype)), values(device)
    region = nullcontext() if gap else polycast.autocast(device, BF16)
    part = (lambda: polycast.autocast(device, BF16)) if gap else nullcontext
    holder, old = module_of(weight), []

    def use_weight() -> None:
        with part():
            old.append(use(x, weight).detach().cpu())

    if kept:
        cast_cache.keep(holder)
    with torch.set_grad_enabled(grad), region:
        casts = [count_casts(use_weight) for _ in range(2)]
        if gap or kept > grad:  # a region shares casts too
            assert (casts[1] < casts[0]) == (kept > grad)
        change(weight, 1.0)
        with part():
            new = use(x, weight).detach().cpu()
        with polycast.autocast(device, BF16, cache_enabled=False):
            expected = use(x, weight).detach().cpu()
    assert torch.equal(new, expected) and not torch.equal(new, old[0]) and torch.equal(old[0], old[1])


WAYS = {
    "default, in a region": (False, False),
    "kept, in a region": (True, False),
    "kept, from region to region": (True, True),
}
ALL = {**CHANGES, **NOT_ON_XLA, **ASSIGNED}


@pytest.mark.parametrize(
    ("way", "name"), [(way, name) for way in WAYS for name in ALL if WAYS[way][0] or name not in ASSIGNED]
)
def test_a_changed_weight_is_cast_anew(real_device: str, name: str, way: str) -> None:
    if real_device == "xla" and name in NOT_ON_XLA:
        pytest.skip("an operation that XLA lacks")
    kept, gap = WAYS[way]
    for category in USE:
        for grad in (False,) if name in ASSIGNED else (True, False):
            check(real_device, category, ALL[name], grad, kept, gap)


@pytest.mark.parametrize("grad", [True, False])
def test_the_next_region_sees_what_leaves_no_trace(real_device: str, grad: bool) -> None:
    for category in USE:
        check(real_device, category, without_grad(lambda w, value: w.data.add_(value)), grad, kept=False, gap=True)


def test_a_kept_weight_is_saved_and_copied_as_any() -> None:
    weight, file = nn.Parameter(values()), io.BytesIO()
    cast_cache.keep(module_of(weight))
    torch.save(weight, file)
    for made in (torch.load(io.BytesIO(file.getvalue())), copy.deepcopy(weight), weight.detach()):
        assert torch.equal(made, weight)

    def use() -> None:
        with polycast.autocast("cpu"), torch.no_grad():
            for _ in range(3):
                weight @ weight.detach().data  # reading it is no change

    assert count_casts(use) == 1 + 3  # that of the weight, and those of its detached tensor


def test_another_part_of_the_same_storage_is_seen(real_device: str) -> None:
    """Same tensor, storage, version, sizes and strides."""
    parts = torch.stack([values(), values(), values().t()]).to(real_device)
    weight = nn.Parameter(parts[0])
    cast_cache.keep(module_of(weight))
    with polycast.autocast(real_device, BF16), torch.no_grad():
        for part in (*parts, parts[0].t()):
            weight.data = part
            for _ in range(2):
                assert torch.equal((torch.eye(4, device=real_device) @ weight).cpu(), part.cpu().to(BF16))


def test_a_cast_serves_one_type_and_one_grad_mode(real_device: str) -> None:
    weight, x = nn.Parameter(values(real_device)), values(real_device)
    with polycast.autocast(real_device, BF16):
        for grad in (True, False, True):
            with torch.set_grad_enabled(grad):
                assert (x @ weight).requires_grad is grad
        assert torch.cat([x, weight.detach().to(BF16)]).dtype is F32


def test_a_cast_that_an_operation_hands_out_can_be_written_to() -> None:
    weight = values()
    cast_cache.keep(module_of(weight))
    with torch.no_grad(), polycast.autocast("cpu"):
        torch.einsum("ij->ji", weight).zero_()
        assert torch.equal(torch.einsum("ij->ij", weight), weight.bfloat16())


def test_gradients_that_inference_mode_takes_away() -> None:
    layer, x = nn.Linear(4, 4), values()
    with torch.inference_mode(), torch.set_grad_enabled(True), polycast.autocast("cpu"):
        outputs = [layer(x) for _ in range(3)]
    assert all(torch.equal(output, outputs[0]) and output.is_inference() for output in outputs)


def test_a_recording_is_left_alone() -> None:
    """Nothing goes into the graph of a device, and nothing comes out of it. The host stands in for the device."""
    layer, x = nn.Linear(4, 4).requires_grad_(False), values().to(BF16)
    cast_cache.keep(layer)
    recording = True
    _compiled.set_recording_probe("cpu", lambda: recording)
    try:
        with polycast.autocast("cpu"):
            assert [count_casts(lambda: layer(x)) for _ in range(2)] == [2, 2]
            recording = False
            assert [count_casts(lambda: layer(x)) for _ in range(2)] == [2, 0]
            recording = True
            assert count_casts(lambda: layer(x)) == 2
    finally:
        _compiled.set_recording_probe("cpu", None)
