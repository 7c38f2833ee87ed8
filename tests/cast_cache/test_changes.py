"""Changes of a weight that the cast cache notices, so that it does not reuse an old cast."""

import copy
import io
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import polycast
import pytest
import torch
from polycast import _extension, cast_cache
from torch import Tensor, nn

from tests.cast_cache.stock import count_casts, module_of
from tests.cast_cache.writes import ALL, ASSIGNED, HIDDEN, NOT_ON_XLA

BF16 = torch.bfloat16
pytestmark = pytest.mark.usefixtures("one_thread")


def values(device: str = "cpu") -> Tensor:
    """Return a 4x4 tensor of random values, most of which bfloat16 cannot represent."""
    return (torch.rand(4, 4) + 1.001).to(device)


def check(device: str, write: str, kept: bool, one_region: bool, mode: Callable[[], Any]) -> None:
    """Assert that uses of a weight before and after a write have its current value, and reuse casts if possible."""
    weight, one = nn.Parameter(values(device)), torch.eye(4, device=device)
    opened = polycast.autocast(device, BF16)

    def cast() -> Tensor:
        with mode(), nullcontext() if one_region else opened:
            return one @ weight

    def assert_right() -> None:
        found = cast()
        assert found.requires_grad is (mode is torch.enable_grad)
        assert torch.equal(found.detach().cpu(), weight.detach().cpu().to(BF16))

    with ExitStack() as stack:
        if one_region:
            stack.enter_context(opened)
        if kept:
            cast()  # The region already has a cast when `keep` is called.
            stack.enter_context(cast_cache.keep(module_of(weight)))
        fresh, reused = (count_casts(cast) for _ in range(2))
        if one_region or (kept and mode is not torch.enable_grad):
            assert reused < fresh
        assert_right()
        ALL[write](weight, 1.5)
        assert_right()


# Each way states whether the casts are kept, whether all uses are in one region, and the grad mode.
WAYS: dict[str, tuple[bool, bool, Callable[[], Any]]] = {
    "default, in a region": (False, True, torch.enable_grad),
    "default, without gradients": (False, True, torch.no_grad),
    "default, from region to region": (False, False, torch.enable_grad),
    "kept, in a region": (True, True, torch.no_grad),
    "kept, with gradients": (True, True, torch.enable_grad),
    "kept, from region to region": (True, False, torch.no_grad),
}


def is_seen(write: str, kept: bool, one_region: bool) -> bool:
    if write in HIDDEN:
        return not kept and not one_region
    return kept or not one_region or write not in ASSIGNED


@pytest.mark.parametrize(
    ("way", "write"), [(way, write) for way in WAYS for write in ALL if is_seen(write, *WAYS[way][:2])]
)
def test_a_changed_weight_is_cast_again(real_device: str, write: str, way: str) -> None:
    """After each write that the cache notices, autocast uses the weight's new value (specification 4.4 and 4.5)."""
    if real_device == "xla" and write in NOT_ON_XLA:
        pytest.skip("XLA lacks this operation")
    check(real_device, write, *WAYS[way])


def test_a_kept_weight_is_saved_and_copied_like_any_other() -> None:
    weight, file = nn.Parameter(values()), io.BytesIO()
    cast_cache.keep(module_of(weight))
    torch.save(weight, file)
    for made in (torch.load(io.BytesIO(file.getvalue())), copy.deepcopy(weight), weight.detach()):
        assert torch.equal(made, weight)

    def use() -> None:
        with polycast.autocast("cpu"), torch.no_grad():
            for _ in range(3):
                weight @ weight.detach().data  # A read of `.data` does not change the weight.

    assert count_casts(use) == 1 + 3  # Each use also casts a new detached tensor.


def test_a_weight_that_moves_within_its_storage_is_cast_again(real_device: str) -> None:
    """The cache notices a new offset or new strides, although the tensor, storage, version and sizes are unchanged."""
    parts = torch.stack([values(), values(), values().t()]).to(real_device)
    weight = nn.Parameter(parts[0])
    cast_cache.keep(module_of(weight))
    with polycast.autocast(real_device, BF16), torch.no_grad():
        for part in (*parts, parts[0].t()):
            weight.data = part
            for _ in range(2):
                assert torch.equal((torch.eye(4, device=real_device) @ weight).cpu(), part.cpu().to(BF16))
        weight.data += 1  # This writes through an alias of the weight, whose current value is already cast.
        assert torch.equal((torch.eye(4, device=real_device) @ weight).cpu(), weight.cpu().to(BF16))


def test_a_cast_that_an_op_returns_can_be_written_to() -> None:
    weight = values()
    cast_cache.keep(module_of(weight))
    with torch.no_grad(), polycast.autocast("cpu"):
        torch.einsum("ij->ji", weight).zero_()
        assert torch.equal(torch.einsum("ij->ij", weight), weight.bfloat16())


def test_calls_in_inference_mode_with_gradients_enabled_give_equal_outputs() -> None:
    layer, x = nn.Linear(4, 4), values()
    with torch.inference_mode(), torch.set_grad_enabled(True), polycast.autocast("cpu"):
        outputs = [layer(x) for _ in range(3)]
    assert all(torch.equal(output, outputs[0]) and output.is_inference() for output in outputs)


def test_a_graph_capture_neither_uses_nor_adds_a_kept_cast() -> None:
    """While a simulated graph capture runs on the CPU, each call makes its own casts."""
    layer, x = nn.Linear(4, 4).requires_grad_(False), values().to(BF16)
    recording = True
    _extension.set_recording_probe("cpu", lambda: recording)
    try:
        with cast_cache.keep(layer), polycast.autocast("cpu"):
            for recording, casts in ((True, [2, 2]), (False, [2, 0]), (True, [2, 2])):  # noqa: B007
                assert [count_casts(lambda: layer(x)) for _ in range(2)] == casts
    finally:
        _extension.set_recording_probe("cpu", None)
