"""A region in generators, coroutines, threads, recursion and compiled code."""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import polycast
import pytest
import torch

from tests.autocast.test_region import BF16, F32, HALF, X, needs_xla, square, state
from tests.support.recorded_errors import RecordedError

RULES = pytest.mark.parametrize(("policy", "dtype"), [(None, BF16), ({"matmul": "fp16"}, HALF)])


@RULES
def test_a_region_holds_in_a_generator_while_it_runs(policy: Any, dtype: torch.dtype) -> None:
    @polycast.autocast("cpu", policy=policy)
    def items() -> Iterator[torch.dtype]:
        for _ in range(2):
            yield (X @ X).dtype

    assert [(inside, (X @ X).dtype) for inside in items()] == [(dtype, F32)] * 2


@RULES
def test_a_region_holds_in_a_coroutine_while_it_runs(policy: Any, dtype: torch.dtype) -> None:
    seen: list[torch.dtype] = []

    async def run() -> torch.dtype:
        for _ in range(3):
            seen.append((X @ X).dtype)
            await asyncio.sleep(0)
        return (X @ X).dtype

    async def both() -> list[torch.dtype]:
        return list(await asyncio.gather(polycast.autocast("cpu", policy=policy)(run)(), run()))

    assert asyncio.run(both()) == [dtype, F32]
    assert seen == [dtype, F32] * 3


def test_a_region_decorates_no_asynchronous_generator(recorded_error: RecordedError) -> None:
    async def items() -> AsyncIterator[int]:
        yield 1

    with recorded_error():
        polycast.autocast("cpu")(items)


def test_a_region_decorates_and_its_function_may_call_itself() -> None:
    assert polycast.autocast("cpu", HALF)(square)(X).dtype is HALF

    @polycast.autocast("cpu")
    def descend(depth: int) -> torch.Tensor:
        return descend(depth - 1) if depth else X @ X

    assert descend(3).dtype is BF16
    assert square(X).dtype is F32


def test_the_state_is_per_thread() -> None:
    with polycast.autocast("cpu"), ThreadPoolExecutor(1) as thread:
        functions = square, polycast.autocast("cpu")(square), square
        assert [thread.submit(function, X).result().dtype for function in functions] == [F32, BF16, F32]


@pytest.mark.parametrize("decorated", [True, False])
def test_threads_in_one_region_do_not_meet(decorated: bool) -> None:
    entered, left = Barrier(2), Event()
    region = polycast.autocast("cpu")

    def forward(wait: Callable[[], object]) -> None:
        entered.wait()
        wait()

    def run(wait: Callable[[], object]) -> None:
        if decorated:
            region(forward)(wait)
            return
        with region:
            forward(wait)

    def inside() -> bool:
        with polycast.autocast("cpu", torch.float16):
            run(left.wait)
            return torch.get_autocast_dtype("cpu") is torch.float16

    def outside() -> bool:
        run(lambda: None)
        left.set()
        return torch.is_autocast_enabled("cpu")

    with ThreadPoolExecutor(2) as pool:
        restored, enabled = pool.submit(inside), pool.submit(outside)
        assert (restored.result(), enabled.result()) == (True, False)


def test_a_region_entered_again_in_itself_is_left_as_often(recorded_error: RecordedError) -> None:
    before, region = state("cpu"), polycast.autocast("cpu", HALF)
    with region as first, torch.autocast("cpu", enabled=False), region as second:
        assert first is second is region
        assert state("cpu") == (True, HALF)
    assert state("cpu") == before
    with recorded_error():
        region.__exit__(None, None, None)
    with copy.deepcopy(region):
        assert state("cpu") == (True, HALF)
    assert state("cpu") == before


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
        pytest.param(_xla, marks=needs_xla),
    ],
)
def test_regions_are_traced_without_a_break(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert compiled(X).dtype is function(X).dtype
