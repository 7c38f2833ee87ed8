"""Random nested programs of rules against an oracle that casts by hand; TIMES=100 runs 4,000."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from types import FunctionType
from typing import Any

import polycast
import pytest
import torch
from hypothesis import assume, given, note
from polycast._compiled import scope_depth, scope_in_force
from torch import Tensor

from tests.policies.programs import GIVEN, Block, StoppedError, blocks, expected, source_of
from tests.support.devices import lower_precision
from tests.support.properties import examples

LIBRARY = torch.library.Library("programs", "DEF")  # type: ignore[no-untyped-call]
LIBRARY.define("product(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]
LIBRARY.impl("product", lambda x: x @ x, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


@pytest.fixture(autouse=True)
def _nothing_used() -> Iterator[None]:
    yield
    polycast.use(None)


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


def check(program: Block, device_type: str = "cpu") -> None:
    names: dict[str, Any] = {
        one.__name__: one for one in (StoppedError, compile_anew, polycast, suppress, together, torch)
    }
    for name, dtype in {**GIVEN, "half": "float16"}.items():
        names[name] = torch.eye(2, dtype=getattr(torch, dtype)).to(device_type)
    names["suspended"] = []
    note(source := source_of(program, device_type))
    exec(source, names)
    assert [str(result.dtype)[6:] for result in names["program"]()] == expected(program, device_type)
    x = torch.eye(2).to(device_type)
    with polycast.autocast(device_type):  # and nothing of it is left
        assert (x @ x).dtype == lower_precision(device_type)[0]
    assert polycast.policy.in_force() == polycast.Policy()
    assert (scope_depth(), scope_in_force(), torch.is_autocast_enabled(device_type)) == (0, None, False)


@examples(40)
@given(blocks(3, "utgsr"))
def test_ops_run_in_the_types_that_nested_rules_give_them(program: Block) -> None:
    check(program)


@examples(20)
@given(program=blocks(3, "utgsr"))
def test_they_do_on_every_device(real_device: str, program: Block) -> None:
    regions = set(re.findall(r"dtype=torch\.(\w+)", source_of(program, real_device)))
    assume(regions <= {str(dtype).removeprefix("torch.") for dtype in lower_precision(real_device)})
    check(program, real_device)


@examples(5)
@given(blocks(2, "utgsrc"))
def test_ops_of_compiled_programs_do_too(program: Block) -> None:
    check(program)
    torch._dynamo.reset()
