"""What an iteration costs: calls of operators, and reads, which are told once.

Calls are those on accelerators with fused kernels of torch's, compared with torch's own; here on the CPU.

A call is one operator of torch that launches work, whatever it calls in turn; views, allocations and conversions that
convert nothing are none, nor is the value of a learning rate on the host.
"""

import warnings
from collections import Counter
from typing import Any

import polycast
import pytest
import torch
from polycast import backends, syncfree
from torch.amp.grad_scaler import GradScaler as TorchScaler

from tests.scaler.common import Loop, started
from tests.support.optimizers import composition

VIEWS = ("detach", "detach_", "reshape", "view", "split", "split_with_sizes", "expand", "unbind")
IDLE = {"aten::" + name for name in (*VIEWS, "empty", "empty_like", "new_empty", "lift_fresh", "item")}


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
    with composition():
        iteration()
        with torch.autograd.profiler.profile() as profile:  # type: ignore[no-untyped-call]
            iteration()
    return sum((calls(event) for event in profile.function_events if event.cpu_parent is None), Counter())


def ours(number: int, dtype: torch.dtype, groups: int, **options: Any) -> Counter[str]:
    params = parameters(number * groups, dtype)
    optimizer = syncfree.AdamW([{"params": params[group::groups]} for group in range(groups)], **options)
    scaler = started()

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


@pytest.mark.parametrize(("case", "more"), [("float32", 0), ("two groups", 2), ("bfloat16 with states of float32", 3)])
def test_calls_do_not_grow_with_the_parameters_and_are_no_more_than_torchs(case: str, more: int) -> None:
    """States of another dtype, which torch has not, are copied; torch 2.13 saves two calls for the second group."""
    dtype, groups, options = CASES[case]
    one, few = ours(1, dtype, groups, **options), ours(2, dtype, groups, **options)
    assert one.total() <= few.total()
    assert few == ours(161, dtype, groups, **options)
    assert one.total() <= torchs(1, groups).total() + more, one


READS = (
    "each step of SGD waits until the device has told whether to skip it; an optimizer of polycast.syncfree does not"
)


@pytest.mark.parametrize(
    ("stalls", "library", "texts"), [(True, torch.optim, [READS]), (True, syncfree, []), (False, torch.optim, [])]
)
def test_where_a_read_stalls_the_remedy_is_named_once(
    stalls: bool, library: Any, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "reads_stall", lambda kind: stalls and kind == "cpu")
    loop = Loop(polycast.GradScaler(), library)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            loop.iterate(1.0)
    found = [(str(warning.message), warning.filename) for warning in caught]
    assert found == [(text, __file__.replace("test_calls", "common")) for text in texts]


def test_reads_stall_on_xla_only() -> None:
    assert [kind for kind in ("cpu", "cuda", "xpu", "xla") if backends.reads_stall(kind)] == ["xla"]
