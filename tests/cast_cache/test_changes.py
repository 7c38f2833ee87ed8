"""A cast is never reused for a weight that has changed since, however it changed, nor in another dtype or grad mode."""

import copy
import io
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any

import polycast
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polycast import _extension, cast_cache
from torch import Tensor, nn

from tests.cast_cache.stock import count_casts, module_of
from tests.cast_cache.writes import ALL, ASSIGNED, HIDDEN, NOT_ON_XLA
from tests.support.properties import examples

BF16 = torch.bfloat16
MODES: dict[str, Callable[[], Any]] = {
    mode.__name__: mode for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad)
}
pytestmark = pytest.mark.usefixtures("one_thread")


def values(device: str = "cpu") -> Tensor:
    """Four by four values, none of them a number of bfloat16."""
    return (torch.rand(4, 4) + 1.001).to(device)


Acts = list[tuple[str, float, str]]  # a write, its value, and the grad mode of the uses before and after it


def check(device: str, acts: Acts, kept: bool, one_region: bool) -> None:
    """Use a weight until its cast is reused, and change it, again and again: each use gives the values at that time."""
    weight, one = nn.Parameter(values(device)), torch.eye(4, device=device)
    opened = polycast.autocast(device, BF16)

    def cast(mode: str) -> Tensor:
        with MODES[mode](), nullcontext() if one_region else opened:
            return one @ weight

    def assert_right(mode: str) -> None:
        found = cast(mode)
        assert found.requires_grad is (mode == "enable_grad")
        assert torch.equal(found.detach().cpu(), weight.detach().cpu().to(BF16))

    with ExitStack() as stack:
        if kept:
            stack.enter_context(cast_cache.keep(module_of(weight)))
        if one_region:
            stack.enter_context(opened)
        for write, value, mode in acts:
            fresh, reused = (count_casts(partial(cast, mode)) for _ in range(2))
            if one_region or (kept and mode != "enable_grad"):
                assert reused < fresh
            assert_right(mode)
            ALL[write](weight, value)
        assert_right(acts[-1][2])


# Whether the casts are kept, whether all happens in one region, and the grad mode.
WAYS = {
    "default, in a region": (False, True, "enable_grad"),
    "default, without gradients": (False, True, "no_grad"),
    "default, from region to region": (False, False, "enable_grad"),
    "kept, in a region": (True, True, "no_grad"),
    "kept, with gradients": (True, True, "enable_grad"),
    "kept, from region to region": (True, False, "no_grad"),
}


def is_seen(write: str, kept: bool, one_region: bool) -> bool:
    if write in HIDDEN:
        return not kept and not one_region
    return kept or not one_region or write not in ASSIGNED


@pytest.mark.parametrize(
    ("way", "write"), [(way, write) for way in WAYS for write in ALL if is_seen(write, *WAYS[way][:2])]
)
def test_a_changed_weight_is_cast_anew(real_device: str, write: str, way: str) -> None:
    """Specification 4.4 and 4.5."""
    if real_device == "xla" and write in NOT_ON_XLA:
        pytest.skip("an operation that XLA lacks")
    kept, one_region, mode = WAYS[way]
    check(real_device, [(write, 1.5, mode)], kept, one_region)


WRITES = st.tuples(
    st.sampled_from([write for write in ALL if write not in HIDDEN]),
    st.sampled_from([0.5, 1.5, 3.0]),
    st.sampled_from(list(MODES)),
)


@given(st.lists(WRITES, min_size=1, max_size=8), st.booleans())
@examples(100)
def test_a_kept_cast_is_never_stale(acts: Acts, one_region: bool) -> None:
    check("cpu", acts, kept=True, one_region=one_region)


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
    recording = True
    _extension.set_recording_probe("cpu", lambda: recording)
    try:
        with cast_cache.keep(layer), polycast.autocast("cpu"):
            for recording, casts in ((True, [2, 2]), (False, [2, 0]), (True, [2, 2])):  # noqa: B007
                assert [count_casts(lambda: layer(x)) for _ in range(2)] == casts
    finally:
        _extension.set_recording_probe("cpu", None)
