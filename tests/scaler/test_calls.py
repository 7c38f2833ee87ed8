"""Calls that an iteration makes on accelerators with fused kernels of torch's, beside torch's own; here on the CPU.

A call is one operator of torch that launches work, whatever it calls in turn; views, allocations and conversions that
convert nothing are none, nor is the value of a learning rate on the host.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch.amp.grad_scaler import GradScaler as TorchScaler

from tests.support.optimizers import composition

VIEWS = ("detach", "detach_", "reshape", "view", "split", "split_with_sizes", "expand", "unbind")
IDLE = {"aten::" + name for name in (*VIEWS, "empty", "empty_like", "new_empty", "lift_fresh", "item")}


@pytest.fixture(autouse=True)
def kernels_of_an_accelerator() -> Iterator[None]:
    with composition():
        yield


def calls(event: Any) -> Counter[str]:
    """Return the calls that an event is, or that it makes where it is none of torch's."""
    launches = event.name not in IDLE and (
        event.name != "aten::to" or any(child.name == "aten::_to_copy" for child in event.cpu_children)
    )
    if event.name.startswith("aten::"):
        return Counter([event.name] if launches else [])
    return sum(map(calls, event.cpu_children), Counter())


def parameters(number: int, dtype: torch.dtype) -> list[torch.Tensor]:
    params = [torch.ones(8, 4, dtype=dtype).requires_grad_() for _ in range(number)]
    for param in params:
        param.grad = torch.ones_like(param, requires_grad=False)
    return params


def counted(iteration: Any) -> Counter[str]:
    """Return the calls of the second iteration, when all state is there."""
    iteration()
    with torch.autograd.profiler.profile() as profile:  # type: ignore[no-untyped-call]
        iteration()
    return sum((calls(event) for event in profile.function_events if event.cpu_parent is None), Counter())


def started(scaler: Any) -> Any:
    scaler.scale(torch.ones(1))
    return scaler


def ours(number: int, dtype: torch.dtype, groups: int, **options: Any) -> Counter[str]:
    params = parameters(number * groups, dtype)
    optimizer = syncfree.AdamW([{"params": params[group::groups]} for group in range(groups)], **options)
    scaler = started(polycast.GradScaler())

    def iteration() -> None:
        scaler.clip_grad_norm(optimizer, 1.0)
        scaler.step(optimizer)
        scaler.update()

    return counted(iteration)


def torchs(number: int, groups: int) -> Counter[str]:
    params = parameters(number * groups, torch.float32)
    optimizer = torch.optim.AdamW([{"params": params[group::groups]} for group in range(groups)], fused=True)
    scaler = started(TorchScaler("cpu"))

    def iteration() -> None:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        scaler.step(optimizer)
        scaler.update()

    return counted(iteration)


CASES: dict[str, tuple[torch.dtype, int, dict[str, Any]]] = {
    "float32": (torch.float32, 1, {}),
    "bfloat16 with states of float32": (torch.bfloat16, 1, {"state_dtype": torch.float32}),
    "two groups": (torch.float32, 2, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_number_of_calls_does_not_grow_with_the_parameters(case: str) -> None:
    dtype, groups, options = CASES[case]
    few = ours(2, dtype, groups, **options)
    assert few == ours(161, dtype, groups, **options)
    assert few.total() >= ours(1, dtype, groups, **options).total()


@pytest.mark.parametrize(("case", "more"), [("float32", 0), ("two groups", 2), ("bfloat16 with states of float32", 3)])
def test_calls_are_no_more_than_torchs(case: str, more: int) -> None:
    """States of another dtype, which torch has not, are copied; torch 2.13 saves two calls for the second group."""
    dtype, groups, options = CASES[case]
    few = ours(1, dtype, groups, **options)
    assert few.total() <= torchs(1, groups).total() + more, few


def test_many_parameters_take_as_many_calls_as_two() -> None:
    assert ours(4000, torch.float32, 1) == ours(2, torch.float32, 1)
