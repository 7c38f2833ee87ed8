"""The cast cache is right: a cast is reused, and never for a weight that has changed since, however it changed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import polycast
import pytest
import torch
from polycast import _compiled, cast_cache
from torch import Tensor, nn

from tests.probe import HAS_XLA, NO_XLA

BF16, F32, HALF = torch.bfloat16, torch.float32, torch.float16
DEVICES = ["cpu", pytest.param("xla", marks=pytest.mark.skipif(not HAS_XLA, reason=NO_XLA))]
USES = 3  # of a weight


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    """Begin and end with an empty cache."""
    assert held() == 0
    yield
    cast_cache.clear()
    assert held() == 0


def held() -> int:
    return sum(counts.entries for counts in cast_cache.info().values())


def hits(device: str) -> int:
    counts = cast_cache.info().get(device)
    return counts.hits if counts else 0


def values(device: str) -> Tensor:
    """Four by four values, none of them a number of bfloat16."""
    return (torch.rand(4, 4) + 1.001).to(device)


def step(kind: type[torch.optim.Optimizer], **options: Any) -> Callable[[nn.Parameter], None]:
    def change(weight: nn.Parameter) -> None:
        weight.grad = torch.ones_like(weight)
        kind([weight], lr=0.5, **options).step()  # type: ignore[call-arg]

    return change


def without_grad(change: Callable[[nn.Parameter], object]) -> Callable[[nn.Parameter], None]:
    def run(weight: nn.Parameter) -> None:
        with torch.no_grad():
            change(weight)

    return run


def load(weight: nn.Parameter) -> None:
    module = nn.Module()
    module.weight = weight
    module.load_state_dict({"weight": weight.detach() + 1})


def new_data(weight: nn.Parameter, times: int) -> None:
    for _ in range(times):  # with two, the second can get the storage address of the first
        weight.data = weight.data + 1


def swap_data(weight: nn.Parameter) -> None:
    weight.data, other = weight.data + 1, weight.data
    other.add_(1)


def view_of_data(weight: nn.Parameter) -> None:
    weight.data = weight.data.t()  # the same storage, address and version


@torch.inference_mode()
def in_inference_mode(weight: nn.Parameter) -> None:
    weight.add_(1)


# Ways to change a weight. All of them count a version or change something else that shows, or are told of.
CHANGES: dict[str, Callable[[nn.Parameter], None]] = {
    "in-place operation": without_grad(lambda w: w.add_(1)),
    "operation on a view": without_grad(lambda w: w[0].mul_(2)),
    "operation on a detached tensor": without_grad(lambda w: w.detach().add_(1)),
    "copy_": without_grad(lambda w: w.copy_(w + 1)),
    "in inference mode": in_inference_mode,
    "load_state_dict": load,
    "new .data": lambda w: new_data(w, 1),
    "new .data, twice": lambda w: new_data(w, 2),
    "swapped .data": swap_data,
    "a view as .data": view_of_data,
    "SGD": step(torch.optim.SGD),
    "AdamW": step(torch.optim.AdamW),
    "AdamW, foreach": step(torch.optim.AdamW, foreach=True),
}
# Ours, where this release has them, write through an operator that takes lists, like torch's fused ones.
OURS = getattr(polycast, "syncfree", None)
CHANGES |= {f"polycast's {name}": step(getattr(OURS, name)) for name in ("SGD", "Adam", "AdamW") if OURS}
HOST_CHANGES: dict[str, Callable[[nn.Parameter], None]] = {
    "set_": without_grad(lambda w: w.set_(w + 1)),  # type: ignore[call-overload]
    "foreach": without_grad(lambda w: torch._foreach_add_([w], 1)),
    "SGD, fused": step(torch.optim.SGD, fused=True),
    "Adam, fused": step(torch.optim.Adam, fused=True),
}
# A write through .data counts no version: the region after it sees it, and a kept cast does not.
HIDDEN = {"write through .data": without_grad(lambda w: w.data.add_(1))}

# What each category does to a weight, of the type that makes it cast.
USE: dict[str, tuple[torch.dtype, Callable[[Tensor, Tensor], Tensor]]] = {
    "lower_precision_fp": (F32, lambda x, weight: x.to(BF16) @ weight),
    "fp32": (BF16, lambda _, weight: weight.prod(0)),
    "promote": (BF16, lambda x, weight: torch.cat([x, weight])),
}


def check(
    device: str, category: str, change: Callable[[nn.Parameter], None], grad: bool, kept: bool, gap: bool
) -> None:
    """Use a weight until its cast is reused, change it, and use it again, in the same region or in the next one."""
    dtype, use = USE[category]
    weight, x = nn.Parameter(values(device).to(dtype)), values(device)
    region = nullcontext() if gap else polycast.autocast(device)
    part = (lambda: polycast.autocast(device)) if gap else nullcontext
    if kept:
        cast_cache.keep(weight)
    with torch.set_grad_enabled(grad), region:
        before = hits(device)
        with part():
            old = [use(x, weight).detach().cpu() for _ in range(USES)]
        # Torch shares no cast to another type than the region's, and unasked neither does this cache.
        assert hits(device) > before or (dtype is BF16 and (grad or not kept))
        change(weight)
        with part():
            new = use(x, weight).detach().cpu()
        with polycast.autocast(device, cache_enabled=False):
            expected = use(x, weight).detach().cpu()
    assert torch.equal(new, expected)
    assert not any(torch.equal(new, value) for value in old)


@pytest.mark.parametrize("gap", [False, True], ids=["inside a region", "between regions"])
@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
@pytest.mark.parametrize("name", [*CHANGES, *HOST_CHANGES])
@pytest.mark.parametrize("device", DEVICES)
def test_a_changed_weight_is_cast_anew(device: str, name: str, kept: bool, gap: bool) -> None:
    if device != "cpu" and name in HOST_CHANGES:
        pytest.skip("an operation that only the host has")
    for category in USE:
        if name == "SGD, fused" and USE[category][0] is BF16:
            continue  # torch's own does nothing to such a weight
        for grad in (True, False):
            check(device, category, {**CHANGES, **HOST_CHANGES}[name], grad, kept, gap)


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("device", DEVICES)
def test_the_next_region_sees_what_leaves_no_trace(device: str, name: str) -> None:
    for category in USE:
        for grad in (True, False):
            check(device, category, HIDDEN[name], grad, kept=False, gap=True)


@pytest.mark.parametrize("device", DEVICES)
def test_a_cast_serves_one_type_and_one_grad_mode(device: str) -> None:
    weight, x = nn.Parameter(values(device)), values(device)
    with polycast.autocast(device):
        for grad in (True, False, True):
            with torch.set_grad_enabled(grad):
                assert (x @ weight).requires_grad is grad
        assert torch.cat([x, weight.detach().to(BF16)]).dtype is F32


@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
@pytest.mark.parametrize("grad", [False, True])
def test_regions_of_two_types_nest_over_one_weight(kept: bool, grad: bool) -> None:
    layer, x = nn.Linear(4, 4), values("cpu")
    if kept:
        cast_cache.keep(layer)
    with torch.set_grad_enabled(grad):
        expected = {dtype: layer.to(dtype)(x.to(dtype)) for dtype in (BF16, HALF) if layer.float()}
        for _ in range(USES):
            with polycast.autocast("cpu", BF16):
                outer = [layer(x)]
                with polycast.autocast("cpu", HALF):
                    inner = layer(x)
                outer.append(layer(x))
            assert all(torch.equal(value, expected[BF16]) for value in outer)
            assert torch.equal(inner, expected[HALF])


def test_stock_cannot_nest_them() -> None:
    layer, x = nn.Linear(4, 4), values("cpu")
    polycast.uninstall("cpu")
    try:
        with torch.autocast("cpu", BF16):
            layer(x)
            with torch.autocast("cpu", HALF), pytest.raises(RuntimeError, match="dtype"):
                layer(x)
    finally:
        polycast.install("cpu")


@pytest.mark.parametrize(
    "make",
    [
        lambda: values("cpu")[:2],
        lambda: torch.inference_mode()(values)("cpu"),
        lambda: nn.Parameter(values("cpu"))[0:4] * 1,
        lambda: nn.Parameter(values("cpu")).double(),
    ],
    ids=["a view", "an inference tensor", "no leaf", "float64"],
)
def test_what_cannot_be_told_apart_is_cast(make: Callable[[], Tensor]) -> None:
    tensor = make()
    with torch.inference_mode(tensor.is_inference()), polycast.autocast("cpu"):
        for _ in range(USES):
            tensor @ values("cpu").to(tensor.dtype)
        assert held() == 0


@pytest.mark.parametrize("off", ["argument", "function", "bare region"])
def test_the_switches_of_torch_hold(off: str) -> None:
    layer, x = nn.Linear(4, 4), values("cpu").to(BF16)
    enabled = torch.is_autocast_cache_enabled()
    try:
        if off == "bare region":  # gives no sign of its end
            torch.set_autocast_enabled("cpu", True)
            region: AbstractContextManager[object] = nullcontext()
        else:
            region = polycast.autocast("cpu", cache_enabled=False if off == "argument" else None)
        with region:
            torch.set_autocast_cache_enabled(off == "bare region")
            for _ in range(USES):
                layer(x)
            assert held() == 0
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_cache_enabled(enabled)


def test_a_recording_is_left_alone() -> None:
    """Nothing goes into the graph of a device, and nothing comes out of it. The host stands in for the device."""
    layer, x = nn.Linear(4, 4).requires_grad_(False), values("cpu").to(BF16)
    cast_cache.keep(layer)
    recording = True
    _compiled.set_recording_probe("cpu", lambda: recording)
    try:
        with polycast.autocast("cpu"):
            layer(x)
            assert held() == 0
            recording = False
            layer(x)
            assert held() == 2
            before, recording = hits("cpu"), True
            layer(x)
            assert hits("cpu") == before
    finally:
        _compiled.set_recording_probe("cpu", None)


def test_another_part_of_the_same_storage_is_seen() -> None:
    """Same tensor, storage, version, sizes and strides."""
    parts = torch.stack([values("cpu"), values("cpu")])
    weight = nn.Parameter(parts[0])
    cast_cache.keep(weight)
    with polycast.autocast("cpu"), torch.no_grad():
        for part in parts:
            weight.data = part
            for _ in range(2):
                assert torch.equal(torch.eye(4) @ weight, part.to(BF16))
