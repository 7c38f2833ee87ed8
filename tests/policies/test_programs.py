"""Random nested programs of rules beside an oracle that casts by hand; 10,000 of them by TIMES=100."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import FunctionType
from typing import Any

import polycast
import pytest
import torch
from hypothesis import given, note
from torch import Tensor

from testing.properties import examples
from tests.policies.programs import Block, StoppedError, blocks, expected, source_of

LIBRARY = torch.library.Library("programs", "DEF")  # type: ignore[no-untyped-call]
LIBRARY.define("product(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]
LIBRARY.impl("product", lambda x: x @ x, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]

ran = 0


@pytest.fixture(autouse=True, scope="module")
def _count() -> Iterator[None]:
    yield
    polycast.use(None)
    print(f"{ran} programs beside the oracle")


def compile_anew(function: FunctionType) -> Callable[[], list[Tensor]]:
    """Return the function, compiled as if no other had been written at its place."""
    anew = FunctionType(
        function.__code__.replace(), function.__globals__, function.__name__, None, function.__closure__
    )
    compiled: Callable[[], list[Tensor]] = torch.compile(anew, backend="eager")
    return compiled


def together(*functions: Callable[[], list[Tensor]]) -> list[Tensor]:
    """Return what functions return that run in a thread each, all at once."""
    meet = Barrier(len(functions))

    def start(function: Callable[[], list[Tensor]]) -> list[Tensor]:
        meet.wait()
        return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [tensor for run in [pool.submit(start, function) for function in functions] for tensor in run.result()]


def run(program: Block) -> list[str]:
    """Return the dtype of each result."""
    names: dict[str, Any] = {
        "StoppedError": StoppedError,
        "compile_anew": compile_anew,
        "polycast": polycast,
        "in_process": [None],
        "together": together,
        "suspended": [],
        "torch": torch,
        "single": torch.eye(2),
        "brain": torch.eye(2, dtype=torch.bfloat16),
        "double": torch.eye(2, dtype=torch.float64),
        "half": torch.eye(2, dtype=torch.float16),
    }
    exec(source_of(program), names)
    return [str(result.dtype).removeprefix("torch.") for result in names["program"]()]


def check(program: Block) -> None:
    global ran
    ran += 1
    note(source_of(program))
    assert run(program) == expected(program)
    with polycast.autocast("cpu"):  # and nothing of it is left
        assert (torch.eye(2) @ torch.eye(2)).dtype == torch.bfloat16
    assert polycast.policy.in_force() == polycast.Policy()
    assert not torch.is_autocast_enabled("cpu")


@examples(95)
@given(blocks(3, "utgsr"))
def test_ops_run_in_the_types_that_nested_rules_give_them(program: Block) -> None:
    check(program)


@examples(5)
@given(blocks(2, "utgsrc"))
def test_ops_of_compiled_programs_do_too(program: Block) -> None:
    check(program)
    torch._dynamo.reset()
