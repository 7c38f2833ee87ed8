"""How long casts live: by default as long as the outermost region, kept ones as long as their weight, or the limit."""

import re
from collections.abc import Iterator
from threading import Thread

import polycast
import pytest
import torch
from polycast import _compiled, cast_cache
from torch import Tensor, nn

from tests.probe import HAS_XLA, NO_XLA

DEVICES = ["cpu", pytest.param("xla", marks=pytest.mark.skipif(not HAS_XLA, reason=NO_XLA))]
REGIONS = {"polycast": polycast.autocast, "torch": lambda device: torch.autocast(device, torch.bfloat16)}
WEIGHT = 8 * 8 * 2 + 8 * 2  # bytes of a layer's cast


@pytest.fixture(autouse=True)
def empty(one_thread: None) -> Iterator[None]:  # noqa: ARG001
    """Begin and end with an empty cache."""
    assert held() == (0, 0)
    yield
    cast_cache.limit(None)
    cast_cache.clear()
    assert held() == (0, 0)


def held() -> tuple[int, int]:
    counts = cast_cache.info().values()
    return sum(count.entries for count in counts), sum(count.bytes for count in counts)


def layer(device: str = "cpu", frozen: bool = True) -> nn.Linear:
    return nn.Linear(8, 8, device=device).requires_grad_(not frozen)


def x(device: str = "cpu") -> Tensor:
    return torch.ones(1, 8, dtype=torch.bfloat16, device=device)


def use(module: nn.Module, device: str = "cpu", times: int = 3) -> None:
    for _ in range(times):
        module(x(device))


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("device", DEVICES)
def test_casts_live_to_the_end_of_the_outermost_region(device: str, region: str, mode: type[torch.no_grad]) -> None:
    module = layer(device, frozen=False)
    with mode(), REGIONS[region](device):
        with REGIONS[region](device):
            use(module, device)
        functional = device == "xla" and mode.__name__ == "inference_mode"  # torch_xla cannot use a stored cast there
        assert held() == ((0, 0) if functional else (2, WEIGHT))
    assert held() == (0, 0)


def test_casts_are_freed_at_the_end_of_a_region_without_being_asked_for() -> None:
    module = layer(frozen=False)
    with polycast.autocast("cpu"):
        use(module)
        assert not _compiled.no_casts()
    abs(0)  # the main thread frees them before one of its next instructions
    assert _compiled.no_casts()


def test_tensors_can_be_swapped_after_a_region() -> None:
    """Torch refuses to swap a tensor that is held weakly."""
    one, other = layer().weight, layer().weight
    expected = other.clone()
    with torch.no_grad(), polycast.autocast("cpu"):
        for _ in range(12):
            x() @ one
    with torch.no_grad(), polycast.autocast("cpu"):
        x() @ one
    torch.utils.swap_tensors(one, other)  # type: ignore[no-untyped-call]
    with torch.no_grad(), polycast.autocast("cpu"):
        assert torch.equal(x() @ one, x() @ expected.bfloat16())


def test_casts_of_inference_serve_training() -> None:
    module = layer()
    cast_cache.keep(module)
    with torch.inference_mode(), polycast.autocast("cpu"):
        use(module)
    inputs = torch.ones(1, 8, requires_grad=True)
    with polycast.autocast("cpu"):
        module(inputs).sum().backward()
    assert inputs.grad is not None


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_cast_once_is_not_held(device: str) -> None:
    with torch.no_grad(), polycast.autocast(device):
        activation = torch.ones(8, 8, device=device)
        for _ in range(50):
            activation = (activation @ torch.eye(8, device=device)).float()
            assert held()[0] == 0


def test_one_region_over_many_batches_stays_flat() -> None:
    module = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))
    seen = set()
    with torch.no_grad(), polycast.autocast("cpu"):
        for batch in range(2000):
            batch_input = torch.rand(2, 8)
            module(batch_input)
            if batch > 10:
                seen.add(held())
    assert seen == {(8, 4 * WEIGHT)}


@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
def test_models_that_grow_and_shrink_leave_nothing(kept: bool) -> None:
    for number in range(1000):
        module = nn.Sequential(*(layer(frozen=kept) for _ in range(1 + number % 7)))
        if kept:
            cast_cache.keep(module)
        with polycast.autocast("cpu"):
            use(module)
            assert held() == (2 * len(module), WEIGHT * len(module))
        del module
        assert held() == (0, 0)


def test_models_that_die_inside_a_region_leave_nothing() -> None:
    with polycast.autocast("cpu"):
        for _ in range(50):
            module = nn.Sequential(*(layer() for _ in range(5)))
            use(module)
        del module
        assert held() == (0, 0)


@pytest.mark.parametrize("device", DEVICES)
def test_kept_casts_live_until_released(device: str) -> None:
    module = layer(device)
    cast_cache.keep(module)
    for _ in range(3):
        with polycast.autocast(device):
            use(module, device, times=1)
        assert held() == (2, WEIGHT)
    cast_cache.clear()
    assert held() == (0, 0)
    with polycast.autocast(device):
        use(module, device, times=1)
    assert held() == (2, WEIGHT)
    cast_cache.release(module)
    assert held() == (0, 0)
    with polycast.autocast(device):
        use(module, device, times=1)
    assert held() == (0, 0)


def test_casts_with_history_are_not_kept() -> None:
    module = nn.Linear(8, 8)
    cast_cache.keep(module)
    with polycast.autocast("cpu"):
        use(module)
        assert held() == (2, WEIGHT)
    assert held() == (0, 0)


def test_the_limit_drops_what_was_not_used_for_longest() -> None:
    modules = [layer() for _ in range(4)]
    cast_cache.keep(nn.Sequential(*modules))
    cast_cache.limit(2 * WEIGHT)

    def hits(module: nn.Module) -> bool:
        before = cast_cache.info()["cpu"].hits
        with polycast.autocast("cpu"):
            use(module, times=1)
        assert held()[1] <= 2 * WEIGHT
        return cast_cache.info()["cpu"].hits == before + 2

    assert [hits(modules[index]) for index in (0, 1, 0, 2, 0, 1)] == [False, False, True, False, True, False]
    cast_cache.limit(WEIGHT - 1)
    assert held() == (1, WEIGHT - 16) or held() == (1, 16)
    cast_cache.limit(0)
    assert held() == (0, 0)


def test_the_limit_leaves_gradients_alone() -> None:
    module = nn.Linear(8, 8)
    cast_cache.limit(0)
    with polycast.autocast("cpu"):
        use(module)
        assert held() == (2, WEIGHT)


def test_a_hidden_write_is_found_on_request() -> None:
    module = layer()
    cast_cache.keep(module)
    message = "the cast of 'weight' to BFloat16 that polycast reuses is not that of its values now: they were changed"
    cast_cache.verify(True)
    try:
        with polycast.autocast("cpu"):
            use(module)
        module.weight.numpy()[0, 0] += 1
        with polycast.autocast("cpu"), pytest.raises(RuntimeError, match=re.escape(message)):
            use(module)
    finally:
        cast_cache.verify(False)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (torch.ones(2, dtype=torch.int64), "cannot keep the casts of the tensor: it is not floating-point"),
        (
            torch.ones(2).requires_grad_() * 1,
            "cannot keep the casts of the tensor: it is no leaf, a view or a dual tensor",
        ),
        (
            [torch.ones(2), torch.ones(2)[:1]],
            "cannot keep the casts of tensor 1: it is no leaf, a view or a dual tensor",
        ),
        (
            torch.inference_mode()(torch.ones)(2),
            "cannot keep the casts of the tensor: it is an inference tensor, which counts no versions",
        ),
        (
            torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
            "cannot keep the casts of the tensor: it is a tensor subclass, a wrapper or not strided",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(target: Tensor | list[Tensor], text: str) -> None:
    before = dict(cast_cache._kept)
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        cast_cache.keep(target)
    assert cast_cache._kept == before


def test_threads_leave_nothing_while_the_main_thread_waits() -> None:
    """Nothing of the main thread runs meanwhile; the thread that stores next drops what others left."""
    weight, entries = torch.ones(8, 8, requires_grad=True), []

    def request() -> None:
        with polycast.autocast("cpu"):
            x() @ weight

    def serve() -> None:
        for _ in range(40):
            thread = Thread(target=request)
            thread.start()
            thread.join()
            entries.append(_compiled.cast_counts(sweep=False)["cpu"][0])

    server = Thread(target=serve)
    server.start()
    server.join()
    assert max(entries) <= 1


def test_gradients_that_inference_mode_takes_away() -> None:
    module = layer().requires_grad_(True)
    with torch.inference_mode(), torch.set_grad_enabled(True), polycast.autocast("cpu"):
        outputs = [module(x()) for _ in range(3)]
    assert all(torch.equal(output, outputs[0]) and output.is_inference() for output in outputs)
