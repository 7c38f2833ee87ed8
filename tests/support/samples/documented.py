"""Every rule of the documents' op lists, which policy.yaml holds, and whether calls as a user writes them obey it.

What a rule promises in a region of its device and lower precision, under every public name of the ops that decide it:

- lower_precision_fp: from float32 inputs, every floating output has the lower precision;
- fp32: from inputs of the lower precision, every floating output has float32 (complex64 if complex);
- promote: lower precision and float32 inputs give float32, lower precision alone gives itself;
- banned: the call raises a RuntimeError.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from polycast.backends import device_type_of
from polycast.debug.verification.samples import Make

from tests.support.cases import CASES, POLICY
from tests.support.probe import flatten, probes, reach, region, tensors_of

from .public import composites, prepare

F32 = torch.float32
Call = Callable[[], object]


@dataclass(frozen=True)
class DocumentedRule:
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


RULES = [
    DocumentedRule(part.document.name, device, getattr(torch, dtype), part.category.value, name, ops)
    for part in POLICY.documents
    for device in part.devices
    for dtype in part.dtypes
    for name, ops in part.names
]

# On these a fake tensor of the device does not get through the op: what arrives right below autocast is looked at.
PROBED = {("cuda", "gru_cell"), ("xpu", "_convolution"), ("xpu", "_thnn_fused_gru_cell"), ("xpu", "gru_cell")}


def check(rule: DocumentedRule) -> None:
    """Assert that a rule keeps its promise, with whatever kernels are in force."""
    lower = rule.lower_precision
    with tensors_of(rule.device), region(rule.device, lower):
        if rule.category == "banned":
            # Of torch, and of policy.yaml, which may say it in its own words.
            messages = ["unsafe to autocast", *(part.message for part in POLICY.rules() if part.message)]
            for _, call in calls(rule, F32):
                assert any(message in error(call) for message in messages)
        elif rule.category == "lower_precision_fp":
            assert dtypes_of(rule, F32) <= {lower}
        elif rule.category == "fp32":
            assert dtypes_of(rule, lower) <= {F32, torch.complex64}
        else:
            assert dtypes_of(rule, lower, F32) == {F32}
            assert dtypes_of(rule, lower) == {lower}


def calls(rule: DocumentedRule, *dtypes: torch.dtype) -> Iterator[tuple[str, Call]]:
    """Yield the calls of the ops that decide a rule, each with its op, of inputs of these dtypes by turns."""
    make = partial(Make, device_type_of(rule.device), *dtypes)
    for op in POLICY.ops:
        if op.name in rule.ops:
            cases = [case for case in CASES if (case.op, case.device) == (op.name, rule.device)]
            overloads = [case.name for case in cases if "name" not in case.overload.lower()]
            for name in op.public:
                yield from ((op.name, call) for call in prepare(op.name, name, overloads, make()))
    if rule.name in {name.rpartition(".")[2] for name, _ in POLICY.composites}:
        yield from ((name, call) for name, call in composites(make()) if name.endswith(f".{rule.name}"))


def dtypes_of(rule: DocumentedRule, *dtypes: torch.dtype) -> set[torch.dtype]:
    """Return the dtypes that the calls return, or where that needs the device, the dtypes that they run in."""
    found: set[torch.dtype] = set()
    for op, call in calls(rule, *dtypes):
        if (rule.device, op) in PROBED:
            with probes(rule.device, [op]):
                given = reach(call).tensors
        else:
            given = [tensor.dtype for tensor in flatten(call())]
        floating = {dtype for dtype in given if dtype.is_floating_point or dtype.is_complex}
        assert floating, "a call without a floating-point result proves nothing"
        found |= floating
    return found


def error(call: Call) -> str:
    """Return the text of the error that a call raises."""
    try:
        call()
    except RuntimeError as raised:
        return str(raised)
    raise AssertionError("the call raises no error")
