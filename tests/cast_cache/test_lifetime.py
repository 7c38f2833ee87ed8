"""Kept casts live until their weight changes, dies or is released, or the limit asks for their room."""

import re
from collections.abc import Iterator
from typing import cast

import polycast
import pytest
import torch
from polycast import cast_cache
from torch import Tensor, nn
from torch.utils.dlpack import from_dlpack

from tests.cast_cache.stock import held, hits

WEIGHT = 8 * 8 * 2 + 8 * 2  # bytes of a layer's cast


@pytest.fixture(autouse=True)
def empty(one_thread: None) -> Iterator[None]:  # noqa: ARG001
    """Begin and end with nothing kept."""
    assert held() == (0, 0)
    yield
    cast_cache.limit(None)
    assert held() == (0, 0)


def layer(device: str = "cpu") -> nn.Linear:
    return nn.Linear(8, 8, device=device).requires_grad_(False)


def x(device: str = "cpu") -> Tensor:
    return torch.ones(1, 8, dtype=torch.bfloat16, device=device)


def use(module: nn.Module, device: str = "cpu") -> None:
    with polycast.autocast(device, torch.bfloat16):
        module(x(device))


def test_kept_casts_live_until_released(real_device: str) -> None:
    module = layer(real_device)
    cast_cache.keep(module)
    for _ in range(3):
        use(module, real_device)
        assert held() == (2, WEIGHT)
    cast_cache.clear()
    assert held() == (0, 0)
    use(module, real_device)
    assert held() == (2, WEIGHT)
    cast_cache.release(module)
    assert held() == (0, 0)
    use(module, real_device)
    assert held() == (0, 0)


def test_models_that_grow_and_shrink_leave_nothing() -> None:
    for number in range(100):
        module = nn.Sequential(*(layer() for _ in range(1 + number % 7)))
        cast_cache.keep(module)
        use(module)
        assert held() == (2 * len(module), WEIGHT * len(module))
        del module
        assert held() == (0, 0)


def test_casts_of_inference_serve_training(real_device: str) -> None:
    module = layer(real_device)
    cast_cache.keep(module)
    for _ in range(2):
        with torch.inference_mode():
            use(module, real_device)
        inputs = torch.ones(1, 8, device=real_device, requires_grad=True)
        with polycast.autocast(real_device, torch.bfloat16):
            module(inputs).sum().backward()
        assert inputs.grad is not None
    # XLA can use a normal cast in inference mode no more than a weight.
    assert held()[0] == (4 if real_device == "xla" else 2)
    cast_cache.release(module)


def test_casts_with_history_are_not_kept() -> None:
    module = nn.Linear(8, 8)
    cast_cache.keep(module)
    use(module)
    assert held() == (0, 0)
    cast_cache.release(module)


def test_tensors_can_be_swapped_once_released() -> None:
    """Torch refuses to swap a tensor that is held weakly."""
    one, other = layer().weight, layer().weight
    expected = other.clone()
    for keeping in (False, True):
        if keeping:
            cast_cache.keep([one])
        with torch.no_grad(), polycast.autocast("cpu"):
            x() @ one
        cast_cache.release([one])
    torch.utils.swap_tensors(one, other)  # type: ignore[no-untyped-call]
    with torch.no_grad(), polycast.autocast("cpu"):
        assert torch.equal(x() @ one, x() @ expected.bfloat16())


class WholeNumber:
    """What stands for an int, as NumPy's integers do."""

    def __index__(self) -> int:
        return 0


def test_the_limit_drops_what_was_not_used_for_longest() -> None:
    modules = [layer() for _ in range(4)]
    cast_cache.keep(nn.Sequential(*modules))
    cast_cache.limit(2 * WEIGHT)

    def is_reused(module: nn.Module) -> bool:
        before = hits()
        use(module)
        assert held()[1] <= 2 * WEIGHT
        return hits() == before + 2

    assert [is_reused(modules[index]) for index in (0, 1, 0, 2, 0, 1)] == [False, False, True, False, True, False]
    cast_cache.limit(WEIGHT - 1)
    assert held() == (1, WEIGHT - 16) or held() == (1, 16)
    cast_cache.limit(cast(int, WholeNumber()))
    assert held() == (0, 0)
    cast_cache.limit(2**80)
    use(modules[0])
    assert held() == (2, WEIGHT)
    cast_cache.release(modules)


def test_info_counts_what_happened() -> None:
    module = layer()
    cast_cache.keep(module)
    before = cast_cache.info()["cpu"]
    use(module)
    use(module)
    module.weight.add_(1)
    use(module)
    cast_cache.release(module)
    after = cast_cache.info()["cpu"]
    assert [b - a for a, b in zip(before, after, strict=True)] == [0, 0, 3, 3, 3]  # hits, misses and drops


@pytest.mark.parametrize("kept", [True, False])
def test_a_hidden_write_is_found_on_request(kept: bool) -> None:
    module = nn.Linear(8, 8).requires_grad_(not kept)
    if kept:
        cast_cache.keep(module)
    name = "'weight'" if kept else "a tensor of shape [8, 8]"
    message = f"the cast of {name} to BFloat16 that polycast reuses differs from a fresh cast: the values were changed"
    cast_cache.verify(True)
    try:
        with polycast.autocast("cpu"):
            use(module)
            from_dlpack(module.weight.detach()).add_(1)
            with pytest.raises(RuntimeError, match=re.escape(message)):
                use(module)
    finally:
        cast_cache.verify(False)
        cast_cache.release(module)
