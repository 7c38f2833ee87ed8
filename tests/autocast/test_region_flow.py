"""Regions in threads, in recursion, and in compiled or scripted code."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Barrier, Event

import polycast
import pytest
import torch
from torch import nn

from tests.autocast.test_region import BF16, F32, HALF, X, square
from tests.support.devices import NEEDS_XLA


def test_a_decorated_function_can_call_itself() -> None:
    assert polycast.autocast("cpu", HALF)(square)(X).dtype is HALF

    @polycast.autocast("cpu")
    def descend(depth: int) -> torch.Tensor:
        return descend(depth - 1) if depth else X @ X

    assert descend(3).dtype is BF16
    assert square(X).dtype is F32


def test_decorated_generators_and_coroutines_behave_as_with_pytorchs_region() -> None:
    def dtypes(region: torch.autocast) -> list[torch.dtype]:
        def generator() -> Iterator[torch.dtype]:
            yield (X @ X).dtype
            yield (X @ X).dtype

        async def coroutine() -> torch.dtype:
            return (X @ X).dtype

        return [*region(generator)(), asyncio.run(region(coroutine)())]

    for policy in (None, {"relu": "fp32"}):
        assert dtypes(polycast.autocast("cpu", policy=policy)) == dtypes(torch.autocast("cpu"))


@pytest.mark.parametrize("decorated", [True, False])
def test_threads_in_one_region_do_not_affect_each_other(decorated: bool) -> None:
    entered, left, region = Barrier(2), Event(), polycast.autocast("cpu")

    def forward(wait: Callable[[], object]) -> None:
        with nullcontext() if decorated else region:
            entered.wait()
            wait()

    run = region(forward) if decorated else forward

    def inside() -> torch.dtype:
        with polycast.autocast("cpu", HALF):
            run(left.wait)
            return torch.get_autocast_dtype("cpu")

    def outside() -> bool:
        run(lambda: None)
        left.set()
        return torch.is_autocast_enabled("cpu")

    with ThreadPoolExecutor(2) as pool:
        restored, enabled = pool.submit(inside), pool.submit(outside)
        assert (restored.result(), enabled.result()) == (HALF, False)


def _current(x: torch.Tensor) -> torch.Tensor:
    with polycast.autocast():
        return x @ x


def _nested(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", HALF), polycast.autocast(torch.device("cpu")):
        return x @ x


def _xla(x: torch.Tensor) -> torch.Tensor:
    with polycast.autocast("xla"), polycast.autocast("cpu"):
        return x @ x


@pytest.mark.parametrize(
    "function",
    [
        _current,
        _nested,
        pytest.param(polycast.autocast("cpu")(square), id="decorated"),
        pytest.param(_xla, marks=NEEDS_XLA),
    ],
)
def test_regions_are_traced_without_a_graph_break(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert compiled(X).dtype is function(X).dtype


class Scripted(nn.Module):
    """A module whose polycast regions ``torch.jit.script`` compiles like regions of ``torch.autocast``."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        with polycast.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
            with polycast.autocast("cpu", enabled=False):
                z = self.linear(x)
        with polycast.autocast("cpu"):
            return y, z, y.softmax(0) @ x


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_a_scripted_region_casts_as_it_does_in_python() -> None:
    module = Scripted()
    scripted = torch.jit.script(module)(torch.ones(4, 4))
    assert [y.dtype for y in scripted] == [BF16, F32, BF16]
    assert all(map(torch.equal, scripted, module(torch.ones(4, 4))))


@pytest.mark.parametrize("policy", [None, {"matmul": "float64"}])
def test_a_region_can_be_entered_recursively(policy: dict[str, str] | None) -> None:
    region = polycast.autocast("cpu", HALF, policy=policy)
    with region as first, torch.autocast("cpu", enabled=False), region as second:
        assert first is second is region
        assert square(X).dtype is (HALF if policy is None else torch.float64)
    region.__exit__(None, None, None)  # A surplus exit has no effect.
    assert not torch.is_autocast_enabled("cpu")
