"""Is the policy complete? Everything that torch registers for a device has a row of the same category, or a note."""

import re
from functools import cache

import pytest
import torch
from polycast import _compiled
from torchgen.model import SchemaKind

from codegen.schemas import Schemas
from testing.calls import call
from testing.cases import CASES, DEVICES, Case
from testing.probe import HAS_XLA, NO_XLA, device_type, is_reachable, probes, stock_kernels
from testing.samples.lookalikes import EXCUSED

# A hand-written kernel of torch's keeps its category to itself.
OPAQUE = "stock"


@cache
def registered(column: str) -> list[str]:
    """Return the overloads that torch itself, or a loaded torch_xla, registers on the column's autocast key."""
    key = _compiled.DEVICES[column].dispatch_key
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    line = re.compile(rf"^{key}(?:\[alias\])?:", re.MULTILINE)
    with stock_kernels():
        return sorted(name.removeprefix("aten::") for name in names if line.search(torch._C._dispatch_dump(name)))


# What is registered on a key is for the first of the columns that share it.
PEERS = list({_compiled.DEVICES[column].dispatch_key: column for column in reversed(DEVICES)}.values())[::-1]


@pytest.mark.parametrize("column", PEERS)
def test_every_registered_op_has_a_row(column: str) -> None:
    _skip_without_backend(column)
    rows = {case.name for case in CASES if case.device == column}
    assert sorted(set(registered(column)) - rows) == []


@pytest.mark.parametrize("column", PEERS)
def test_every_row_is_torchs_own_or_carries_a_note(column: str) -> None:
    _skip_without_backend(column)
    if not is_reachable(column):
        pytest.skip(f"fake tensors of {column} carry no autocast key: categories of torch's kernels cannot be seen")
    if not registered(column):
        pytest.skip(f"torch registers nothing for {column}; a backend outside of it does")
    notes = {(row.op, row.overload): row.note for row in _compiled.ROWS if row.device == column}
    cases = [case for case in CASES if case.device == column and case.category != OPAQUE and not _is_named(case)]
    different = {}
    with stock_kernels(), probes(column, [case.reaches for case in cases] + [case.name for case in cases]):
        for case in cases:
            found = category(case) if case.name in registered(column) else "unlisted"
            if found != case.category and not notes[case.op, case.overload]:
                different[case.name] = (case.category, found)
    assert different == {}


def category(case: Case) -> str:
    """Return the category of the kernel in force, told from what arrives below it."""
    lower, full = torch.bfloat16, torch.float32
    try:
        floats, lowers = call(case, [full], lower)[1], call(case, [lower], lower)[1]
    except RuntimeError as error:
        assert "unsafe to autocast" in str(error)
        return "banned"
    if floats.name != case.name:
        return "fp32_append_dtype"
    if floats.dtypes:
        return "fp32_set_opt_dtype"
    if lower in floats.tensors:
        return "lower_precision_fp"
    return "fp32" if full in lowers.tensors else "promote"


def test_what_looks_like_a_listed_op_is_listed_or_excused() -> None:
    schemas = Schemas.installed()
    listed: dict[str, set[str]] = {}
    for case in CASES:
        listed.setdefault(case.op, set()).add(case.overload)
    looks = {f"{before}{op}{after}" for op in listed for before in ("", "_", "native_") for after in ("", "_forward")}
    unlisted = {
        op if overload == "default" else f"{op}.{overload}"
        for op in looks
        for overload in schemas.overloads(op)
        if overload not in listed.get(op, ())
        and (schema := schemas.find(op, overload)).kind() is SchemaKind.functional
        and any(argument.type.is_tensor_like() for argument in schema.arguments.flat_all)
    }
    assert unlisted <= EXCUSED.keys(), "list these, or excuse them in testing/samples/lookalikes.py"


def _is_named(case: Case) -> bool:
    return "Dimname" in str(Schemas.installed().find(case.op, case.overload))


def _skip_without_backend(column: str) -> None:
    if device_type(column) == "xla" and not HAS_XLA:
        pytest.skip(NO_XLA)
