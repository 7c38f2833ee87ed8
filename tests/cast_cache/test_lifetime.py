"""Kept casts live until their weight changes, dies or is released."""

from collections.abc import Iterator
from functools import partial

import polycast
import pytest
import torch
from polycast import cast_cache
from torch import Tensor, nn

from tests.cast_cache.stock import count_allocated, count_casts, module_of
from tests.support.backend import NAME

WEIGHT = 8 * 8 * 2 + 8 * 2  # bytes of a layer's cast


@pytest.fixture(autouse=True)
def empty(one_thread: None) -> Iterator[None]:  # noqa: ARG001
    """Leave nothing kept."""
    before = {*cast_cache._kept}
    yield
    assert {*cast_cache._kept} <= before


def layer(device: str = "cpu") -> nn.Linear:
    return nn.Linear(8, 8, device=device).requires_grad_(False)


def x(device: str = "cpu") -> Tensor:
    return torch.ones(1, 8, dtype=torch.bfloat16, device=device)


def use(module: nn.Module, device: str = "cpu") -> None:
    with polycast.autocast(device, torch.bfloat16):
        module(x(device))


def test_kept_casts_live_until_released(real_device: str) -> None:
    if real_device == NAME:
        pytest.skip("its ops copy to the CPU, which counts as casts")
    module = layer(real_device)
    use(module, real_device)  # XLA's first use of a number casts it
    cast_cache.keep(module)

    def is_cast() -> bool:
        return count_casts(lambda: use(module, real_device)) > 0

    assert [is_cast() for _ in range(3)] == [True, False, False]
    cast_cache.clear()
    assert [is_cast() for _ in range(3)] == [True, False, False]
    cast_cache.release(module)
    assert [is_cast() for _ in range(3)] == [True, True, True]


def test_what_is_dropped_frees_its_memory() -> None:
    module = layer()
    use(module)
    handle = cast_cache.keep(module)
    for drop in (cast_cache.clear, lambda: cast_cache.release(module), handle.remove):
        cast_cache.keep(module)
        assert [count_allocated(lambda: use(module)) for _ in range(2)] == [WEIGHT, 0]
        assert count_allocated(drop) == -WEIGHT


def test_models_that_grow_and_shrink_leave_nothing() -> None:
    def serve(size: int) -> None:
        module = nn.Sequential(*(layer() for _ in range(size)))
        cast_cache.keep(module)
        use(module)

    for size in [*range(1, 8)] * 14:
        assert count_allocated(partial(serve, size)) == 0


def test_casts_of_inference_serve_training(real_device: str) -> None:
    if real_device == NAME:
        pytest.skip("its ops copy to the CPU, which counts as casts")
    module = layer(real_device)
    inputs = torch.ones(1, 8, device=real_device, dtype=torch.bfloat16, requires_grad=True)
    cast_cache.keep(module)

    def infer() -> None:
        with torch.inference_mode():
            use(module, real_device)

    def train() -> None:
        with polycast.autocast(real_device, torch.bfloat16):
            module(inputs).sum().backward()

    # XLA can use a normal cast in inference mode no more than a weight.
    expected = [True, real_device == "xla", False, False]
    assert [count_casts(run) > 0 for run in (infer, train, infer, train)] == expected
    assert inputs.grad is not None
    cast_cache.release(module)


def test_casts_with_history_are_not_kept() -> None:
    module = nn.Linear(8, 8)
    cast_cache.keep(module)
    assert [count_casts(lambda: use(module)) for _ in range(2)] == [2, 2]
    cast_cache.release(module)


def test_tensors_can_be_swapped_once_released() -> None:
    """Torch refuses to swap a tensor that is held weakly."""
    one, other = layer().weight, layer().weight
    expected, holder = other.clone(), module_of(one)
    for keeping in (False, True):
        if keeping:
            cast_cache.keep(holder)
        with torch.no_grad(), polycast.autocast("cpu"):
            x() @ one
        cast_cache.release(holder)
    torch.utils.swap_tensors(one, other)  # type: ignore[no-untyped-call]
    with torch.no_grad(), polycast.autocast("cpu"):
        assert torch.equal(x() @ one, x() @ expected.bfloat16())
