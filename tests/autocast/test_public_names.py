"""The public names in `policy.yaml`: the ops that they call in regions, composites of several ops, and aliases."""

import re
from collections.abc import Callable
from contextlib import suppress

import pytest
import torch
from polycast import Policy, _extension
from polycast.devices import device_type_of
from polycast.op_samples import WITHOUT_SAMPLE, Make
from polycast.scope.scopes import over

from tests.support import probe
from tests.support.cases import ALL_CASES, DEVICES, FIRST_ON_KEY, POLICY
from tests.support.samples.public import ARGUMENTS, composites, prepare

HERE = {case.op for case in ALL_CASES}  # Some ops exist only in other PyTorch releases.
# Ops without a sample are omitted, because `test_policy_cases.py` calls them by the names of the ops.
NAMES = [(op.name, name) for op in POLICY.ops if op.name in HERE - WITHOUT_SAMPLE.keys() for name in op.public]
# A probe receives no calls with named tensors, and no calls of banned ops, which raise earlier.
LISTED = [case for case in ALL_CASES if not case.is_named and case.category != "banned"]
REACHED = [device for device in DEVICES if probe.is_here(device) or probe.is_reachable(device)]
pytestmark = pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")  # cells of RNNs on a GPU


def test_every_public_name_reaches_its_op() -> None:
    """Each public name calls its op on at least one device. On other devices, it may call another listed op first."""
    left: dict[tuple[str, str], object] = dict.fromkeys(NAMES)
    for device in REACHED:
        for (op, name), arrived in arrivals(device, [*left]).items():
            left[op, name] = arrived
            if arrived == {op}:
                del left[op, name]
    assert left == {}
    assert ARGUMENTS.keys() <= {*NAMES}


def arrivals(device: str, names: list[tuple[str, str]]) -> dict[tuple[str, str], set[str]]:
    """Return the ops with rules that each public name calls first on a device, or the errors of the calls."""
    overloads: dict[str, list[str]] = {}
    for case in LISTED:
        if case.device == device:
            overloads.setdefault(case.op, []).append(case.name)
    reaches = [case.reaches for case in LISTED if case.device == device]
    with probe.kernels_of(device), probe.tensors_of(device):
        make = Make(device_type_of(device))
        calls = {(op, name): prepare(op, name, overloads[op], make) for op, name in names if op in overloads}
        with probe.probes(device, reaches), probe.region(device, _extension.DEVICES[device].lower_precision[0]):
            return {names: {first_reached(call) for call in calls[names]} for names in calls}


def first_reached(call: Callable[[], object]) -> str:
    try:
        call()
    except probe.ReachedError as reached:
        return reached.name.partition(".")[0]
    except Exception as error:  # The test reports all failing names together.
        return f"{type(error).__name__}: {error}"
    return "no listed op"


@pytest.mark.skipif(not probe.HAS_XLA, reason="composites run other ops in other releases; the reference has torch_xla")
def test_composites_run_the_ops_that_the_policy_lists() -> None:
    found: dict[str, set[str]] = {}
    for device in (device for device in FIRST_ON_KEY if device in REACHED):
        overloads = [case.name for case in LISTED if case.device == device]
        with probe.stock_kernels(), probe.recorded(device, overloads) as ops, probe.tensors_of(device):
            for name, call in composites(Make(device_type_of(device))):
                ops.clear()
                # Without the device, most calls fail after some of their ops.
                with probe.region(device, torch.bfloat16), suppress(RuntimeError, AssertionError):
                    call()
                found.setdefault(name, set()).update(op.partition(".")[0] for op in ops)
    # Only a GPU runs `_cudnn_rnn`. Recording an op without a built-in rule would hide the ops that it runs.
    policy = {name: {*ops} & HERE - {"_cudnn_rnn"} for name, ops in POLICY.composites}
    listed = {name: {op.name for op in POLICY.ops if name in op.public} for name in policy}
    assert {name: ops - listed[name] for name, ops in found.items()} == policy


@pytest.mark.filterwarnings("ignore:PyTorch was compiled without cuDNN")  # A CPU build issues this warning for cuda.
@pytest.mark.parametrize("device", [device for device in FIRST_ON_KEY if device in REACHED])
def test_a_rule_by_a_public_name_applies_to_each_call_of_the_name(device: str) -> None:
    """A rule by a public name applies to each call. In a CUDA build, RNNs run cuDNN's op, which cannot have a rule."""
    with probe.kernels_of(device), probe.tensors_of(device):
        for name, call in composites(Make(device_type_of(device))):
            banned = pytest.raises(RuntimeError, match=f"is banned on {device} by the rule 'Policy: {name}'")
            with probe.region(device, torch.bfloat16), over(Policy({name: "banned"})), banned:
                call()


def test_documented_aliases_of_public_names_are_listed() -> None:
    public = {name for _, name in NAMES}
    alias = re.compile(r"\bAlias (?:for|of) :\w+:`~?(torch\.[\w.]+)`", re.IGNORECASE)
    found = set()
    for place in (torch, torch.nn, torch.nn.functional, torch.linalg, torch.special, torch.fft, torch.Tensor):
        for name, value in vars(place).items():
            document = getattr(value, "__doc__", None)
            target = alias.search(document) if isinstance(document, str) else None
            if target and target[1] in public and not name.endswith("_"):  # In-place ops end in "_" and are unlisted.
                found.add(f"{'torch.Tensor' if place is torch.Tensor else place.__name__}.{name}")
    assert "torch.arccos" in found
    assert found <= public
