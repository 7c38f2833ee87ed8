"""Is the policy complete? Everything that torch registers for a device has a rule of the same category, or a note."""

import re
from functools import cache

import pytest
import torch
from polycast import _compiled
from polycast.backends import device_type_of
from polycast.policy.rules import BUILT_IN
from torchgen.model import SchemaKind

from codegen.schemas import Schemas
from tests.support.calls import call
from tests.support.cases import CASES, DEVICES, Case
from tests.support.probe import HAS_XLA, NO_XLA, is_reachable, probes, stock_kernels
from tests.support.samples.lookalikes import EXCUSED

# A hand-written kernel of torch's keeps its category to itself.
OPAQUE = "stock"


@cache
def registered(device: str) -> list[str]:
    """Return the overloads that torch itself, or a loaded torch_xla, registers on the device's autocast key."""
    key = _compiled.DEVICES[device].dispatch_key
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    line = re.compile(rf"^{key}(?:\[alias\])?:", re.MULTILINE)
    with stock_kernels():
        return sorted(name.removeprefix("aten::") for name in names if line.search(torch._C._dispatch_dump(name)))


# What is registered on a key is for the first of the devices that share it.
PEERS = list({_compiled.DEVICES[device].dispatch_key: device for device in reversed(DEVICES)}.values())[::-1]


@pytest.mark.parametrize("device", PEERS)
def test_every_registered_op_has_a_rule(device: str) -> None:
    _skip_without_backend(device)
    ruled = {case.name for case in CASES if case.device == device}
    assert sorted(set(registered(device)) - ruled) == []


@pytest.mark.parametrize("device", PEERS)
def test_every_rule_is_torchs_own_or_carries_a_note(device: str) -> None:
    _skip_without_backend(device)
    if not is_reachable(device):
        pytest.skip(f"fake tensors of {device} carry no autocast key: categories of torch's kernels cannot be seen")
    if not registered(device):
        pytest.skip(f"torch registers nothing for {device}; a backend outside of it does")
    notes = {(rule.op, rule.overload): rule.note for rule in BUILT_IN if rule.device == device}
    cases = [case for case in CASES if case.device == device and case.category != OPAQUE and not _is_named(case)]
    different = {}
    with stock_kernels(), probes(device, [case.reaches for case in cases] + [case.name for case in cases]):
        for case in cases:
            found = category(case) if case.name in registered(device) else "unlisted"
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
    assert unlisted <= EXCUSED.keys(), "list these, or excuse them in tests/support/samples/lookalikes.py"


def _is_named(case: Case) -> bool:
    return "Dimname" in str(Schemas.installed().find(case.op, case.overload))


def _skip_without_backend(device: str) -> None:
    if device_type_of(device) == "xla" and not HAS_XLA:
        pytest.skip(NO_XLA)
