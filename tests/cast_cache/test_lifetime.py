"""Kept casts, which last until ``cast_cache.clear``, or until their weight changes, is deleted or is released."""

from collections.abc import Callable
from functools import partial

import polycast
import pytest
import torch
from polycast import cast_cache
from torch import Tensor, nn

from tests.cast_cache.stock import count_allocated, count_casts, module_of
from tests.support.backend import NAME

WEIGHT = 8 * 8 * 2 + 8 * 2  # These are the bytes of the casts of a layer's weight and bias.
pytestmark = pytest.mark.usefixtures("one_thread")


def layer(device: str = "cpu") -> nn.Linear:
    return nn.Linear(8, 8, device=device).requires_grad_(False)


def x(device: str = "cpu") -> Tensor:
    return torch.ones(1, 8, dtype=torch.bfloat16, device=device)


def use(module: nn.Module, device: str = "cpu") -> None:
    with polycast.autocast(device, torch.bfloat16):
        module(x(device))


def casts(*runs: Callable[[], object]) -> list[bool]:
    """Return whether each run makes a cast."""
    return [count_casts(run) > 0 for run in runs]


def test_kept_casts_last_until_released(real_device: str) -> None:
    if real_device == NAME:
        pytest.skip("its ops copy to the CPU, and the copies count as casts")
    module = layer(real_device)
    run = partial(use, module, real_device)
    run()  # On XLA, the first use also casts a number, which must not count.
    handle = cast_cache.keep(module)
    assert casts(run, run, cast_cache.clear, run, run) == [True, False, False, True, False]
    handle.remove()
    assert casts(run, run) == [True, True]


def test_dropped_casts_free_their_memory() -> None:
    module = layer()
    use(module)
    handle = cast_cache.keep(module)
    for drop in (cast_cache.clear, handle.remove):
        cast_cache.keep(module)
        assert [count_allocated(lambda: use(module)) for _ in range(2)] == [WEIGHT, 0]
        assert count_allocated(drop) == -WEIGHT


def test_models_that_grow_and_shrink_leave_no_casts() -> None:
    def serve(size: int) -> None:
        module = nn.Sequential(*(layer() for _ in range(size)))
        cast_cache.keep(module)
        use(module)

    for size in [*range(1, 8)] * 5:
        assert count_allocated(partial(serve, size)) == 0


def test_casts_of_inference_are_reused_in_training(real_device: str) -> None:
    if real_device == NAME:
        pytest.skip("its ops copy to the CPU, and the copies count as casts")
    module = layer(real_device)
    inputs = torch.ones(1, 8, device=real_device, dtype=torch.bfloat16, requires_grad=True)

    def train() -> None:
        with polycast.autocast(real_device, torch.bfloat16):
            module(inputs).sum().backward()

    infer = torch.inference_mode()(partial(use, module, real_device))
    with cast_cache.keep(module):
        # On XLA, inference mode allows no view of a normal tensor, so training makes a separate cast.
        assert casts(infer, train, infer, train) == [True, real_device == "xla", False, False]
    assert inputs.grad is not None


def test_casts_with_autograd_history_are_not_kept() -> None:
    module = nn.Linear(8, 8)
    with cast_cache.keep(module):
        assert [count_casts(lambda: use(module)) for _ in range(2)] == [2, 2]


def test_tensors_can_be_swapped_after_release() -> None:
    """A tensor without casts has no weak references, so PyTorch can swap it with another tensor."""
    one, other = layer().weight, layer().weight
    expected = other.clone()
    with cast_cache.keep(module_of(one)), torch.no_grad(), polycast.autocast("cpu"):
        x() @ one
    torch.utils.swap_tensors(one, other)  # type: ignore[no-untyped-call]
    with torch.no_grad(), polycast.autocast("cpu"):
        assert torch.equal(x() @ one, x() @ expected.bfloat16())
