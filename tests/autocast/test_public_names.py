"""Every public name of the policy, called in a region of every device that lists its op: it arrives at that op."""

import re
from collections.abc import Callable
from contextlib import suppress

import pytest
import torch
from polycast import _compiled
from polycast.backends import device_type_of
from polycast.debug.verification.samples import Make

from tests.support.cases import ALL_CASES, DEVICES, FIRST_ON_KEY, POLICY
from tests.support.probe import (
    HAS_XLA,
    ReachedError,
    is_here,
    is_reachable,
    kernels_of,
    probes,
    recorded,
    region,
    stock_kernels,
    tensors_of,
)
from tests.support.samples.public import ARGUMENTS, ELSEWHERE, MODULES, composites, prepare

NAMES = [(op.name, name) for op in POLICY.ops for name in op.public]
# A named tensor does not get as far as a probe, and a banned op arrives nowhere.
LISTED = [case for case in ALL_CASES if "name" not in case.overload.lower() and case.category != "banned"]
REACHED = [device for device in DEVICES if is_here(device) or is_reachable(device)]


def _ops_of(device: str) -> set[str]:
    """Return the ops of a device; of one that shares its key with an earlier one, those that only it has."""
    ops = {case.op for case in LISTED if case.device == device}
    return ops if device in FIRST_ON_KEY else ops - {case.op for case in LISTED if case.device in FIRST_ON_KEY}


@pytest.mark.parametrize("device", [device for device in REACHED if _ops_of(device)])
def test_every_public_name_arrives_at_its_op(device: str) -> None:
    ops = _ops_of(device)
    with kernels_of(device):
        found = {(op, name): arrival(device, op, name) for op, name in NAMES if op in ops}
    assert found == {(op, name): ELSEWHERE.get((op, name), {}).get(device, op) for op, name in found}


def arrival(device: str, op: str, name: str) -> str | None:
    """Return the first listed op that each call under a public name arrives at, or why one did not run."""
    cases = [case for case in LISTED if case.device == device]
    lower = _compiled.DEVICES[device].lower_precision[0]
    found = set()
    with tensors_of(device):
        try:
            calls = prepare(op, name, [case.name for case in cases if case.op == op], Make(device_type_of(device)))
            with probes(device, [case.reaches for case in cases]), region(device, lower):
                found = {first_reached(call) for call in calls}
        except Exception as error:  # the names that are wrong are reported together
            return f"{type(error).__name__}: {error}"
    return found.pop() if len(found) == 1 else f"one of {found}"


def first_reached(call: Callable[[], object]) -> str | None:
    try:
        call()
    except ReachedError as reached:
        return reached.name.partition(".")[0]
    return None


def test_every_op_and_entry_is_of_a_public_name_that_arrives() -> None:
    assert {case.op for case in ALL_CASES} == {case.op for case in LISTED if case.device in REACHED}
    assert ARGUMENTS.keys() | MODULES.keys() | ELSEWHERE.keys() <= set(NAMES)
    for (op, name), others in ELSEWHERE.items():
        assert {case.device for case in LISTED if case.op == op} - set(others), f"{name} never arrives at {op}"


@pytest.mark.skipif(not HAS_XLA, reason="releases of torch differ in how they compose; the reference has torch_xla")
@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")  # of a recurrent cell on a GPU
def test_composites_run_the_ops_that_the_policy_says() -> None:
    found: dict[str, set[str]] = {}
    for device in (device for device in FIRST_ON_KEY if device in REACHED):
        overloads = [case.name for case in LISTED if case.device == device]
        with stock_kernels(), recorded(device, overloads) as ops, tensors_of(device):
            for name, call in composites(Make(device_type_of(device))):
                ops.clear()
                with (
                    region(device, torch.bfloat16),
                    suppress(RuntimeError, AssertionError),
                ):  # without the device, most go a part of the way
                    call()
                found.setdefault(name, set()).update(op.partition(".")[0] for op in ops)
    policy = {name: {*ops} - {"_cudnn_rnn"} for name, ops in POLICY.composites}  # only a GPU would come to that
    listed = {name: {op.name for op in POLICY.ops if name in op.public} for name in policy}
    assert {name: ops - listed[name] for name, ops in found.items()} == policy


def test_what_torch_documents_as_an_alias_of_a_public_name_is_one() -> None:
    public = {name for _, name in NAMES}
    alias = re.compile(r"\bAlias (?:for|of) :\w+:`~?(torch\.[\w.]+)`", re.IGNORECASE)
    found = set()
    for place in (torch, torch.nn, torch.nn.functional, torch.linalg, torch.special, torch.fft, torch.Tensor):
        for name, value in vars(place).items():
            document = getattr(value, "__doc__", None)
            target = alias.search(document) if isinstance(document, str) else None
            if target and target[1] in public and not name.endswith("_"):  # what ends so is in place
                found.add(f"{'torch.Tensor' if place is torch.Tensor else place.__name__}.{name}")
    assert "torch.arccos" in found
    assert found <= public
