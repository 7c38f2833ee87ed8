"""Every row of the documents' op lists, which policy.yaml holds, and whether the calls that a user would write keep it.

What a row promises, inside an autocast region of its device and its lower precision, under every public name of the ops
that decide it:

- lower_precision_fp: from float32 inputs, every floating output has the lower precision;
- fp32: from inputs of the lower precision, every floating output has float32 (complex64 if complex);
- promote: lower precision and float32 inputs give float32, lower precision alone gives itself;
- banned: the call raises a RuntimeError.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from testing.cases import CASES, POLICY
from testing.probe import device_type, flatten, probes, reach, region, tensors_of

from .ops import Make
from .public import composites, prepare

F32 = torch.float32
Call = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """What a document promises of one name on one device, and the ops that decide it."""

    document: str
    device: str
    lower_precision: torch.dtype
    category: str
    name: str
    ops: tuple[str, ...]

    def __str__(self) -> str:
        dtype = str(self.lower_precision).removeprefix("torch.")
        return f"{self.document[:3]}-{self.device}-{dtype}-{self.category}-{self.name}"


ROWS = [
    Row(promise.document.name, device, getattr(torch, dtype), promise.category.value, name, ops)
    for promise in POLICY.documents
    for device in promise.devices
    for dtype in promise.dtypes
    for name, ops in promise.names
]

# On these a fake tensor of the device does not get through the op: what arrives right below autocast is looked at.
PROBED = {("cuda", "gru_cell"), ("xpu", "_convolution"), ("xpu", "_thnn_fused_gru_cell"), ("xpu", "gru_cell")}


def check(row: Row) -> None:
    """Assert that a row keeps its promise, with whatever kernels are in force."""
    lower = row.lower_precision
    with tensors_of(row.device), region(row.device, lower):
        if row.category == "banned":
            # Of torch, and of policy.yaml, which may say it in its own words.
            messages = ["unsafe to autocast", *(part.message for part in POLICY.rules() if part.message)]
            for _, call in calls(row, F32):
                assert any(message in error(call) for message in messages)
        elif row.category == "lower_precision_fp":
            assert types(row, F32) <= {lower}
        elif row.category == "fp32":
            assert types(row, lower) <= {F32, torch.complex64}
        else:
            assert types(row, lower, F32) == {F32}
            assert types(row, lower) == {lower}


def calls(row: Row, *dtypes: torch.dtype) -> Iterator[tuple[str, Call]]:
    """Yield the calls of the ops that decide a row, each with its op, of inputs of these types by turns."""
    make = partial(Make, device_type(row.device), *dtypes)
    for op in POLICY.ops:
        if op.name in row.ops:
            cases = [case for case in CASES if (case.op, case.device) == (op.name, row.device)]
            overloads = [case.name for case in cases if "name" not in case.overload.lower()]
            for name in op.public:
                yield from ((op.name, call) for call in prepare(op.name, name, overloads, make()))
    if row.name in {name.rpartition(".")[2] for name, _ in POLICY.composites}:
        yield from ((name, call) for name, call in composites(make()) if name.endswith(f".{row.name}"))


def types(row: Row, *dtypes: torch.dtype) -> set[torch.dtype]:
    """Return the types of what the calls give, or where that takes the device, the types that they run in."""
    found: set[torch.dtype] = set()
    for op, call in calls(row, *dtypes):
        if (row.device, op) in PROBED:
            with probes(row.device, [op]):
                given = reach(call).tensors
        else:
            given = [tensor.dtype for tensor in flatten(call())]
        kinds = {dtype for dtype in given if dtype.is_floating_point or dtype.is_complex}
        assert kinds, "a call without a floating-point result proves nothing"
        found |= kinds
    return found


def error(call: Call) -> str:
    """Return the text of the error that a call raises."""
    try:
        call()
    except RuntimeError as raised:
        return str(raised)
    raise AssertionError("the call raises no error")
