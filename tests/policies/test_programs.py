"""Random nested programs of rules beside an oracle that casts by hand; 10,000 of them by TIMES=100."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import FunctionType
from typing import Any

import polycast
import pytest
import torch
from hypothesis import assume, given, note
from torch import Tensor

from tests.policies.drawn_programs import blocks
from tests.policies.programs import Block, StoppedError, device, expected, source_of
from tests.support.devices import lower_precision
from tests.support.properties import examples

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


def run(program: Block, device_type: str) -> list[str]:
    """Return the dtype of each result."""
    names: dict[str, Any] = {
        "StoppedError": StoppedError,
        "compile_anew": compile_anew,
        "polycast": polycast,
        "in_process": [None],
        "together": together,
        "suspended": [],
        "torch": torch,
        "single": torch.eye(2).to(device_type),
        "brain": torch.eye(2, dtype=torch.bfloat16).to(device_type),
        "double": torch.eye(2, dtype=torch.float64).to(device_type),
        "half": torch.eye(2, dtype=torch.float16).to(device_type),
    }
    exec(source_of(program, device_type), names)
    return [str(result.dtype).removeprefix("torch.") for result in names["program"]()]


def check(program: Block, device_type: str = "cpu") -> None:
    global ran
    ran += 1
    note(source_of(program, device_type))
    on = device(device_type)
    assert run(program, device_type) == expected(program, on)
    x = torch.eye(2).to(device_type)
    with polycast.autocast(device_type):  # and nothing of it is left
        assert str((x @ x).dtype) == f"torch.{on.dtype}"
    assert polycast.policy.in_force() == polycast.Policy()
    assert not torch.is_autocast_enabled(device_type)


@examples(95)
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
