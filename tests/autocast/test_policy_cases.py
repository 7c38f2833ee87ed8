"""The built-in rules on each device: the kernel of each rule, and the dtypes of its op below autocast.

The first test calls overloads in a region, with arguments from their schemas. A probe below autocast records the
dtypes, which must match the category of the rule. ``tests/policies/test_records.py`` checks that each rule equals
PyTorch's or has a note.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial

import pytest
import torch
import yaml
from polycast import _extension
from polycast.cast_by_hand import NARROW
from polycast.devices import device_type_of
from polycast.op_samples import WITHOUT_SAMPLE, Make, arguments, find
from polycast.policy.rules import BUILT_IN
from torch._subclasses.fake_tensor import FakeTensorMode
from torchgen.model import SchemaKind

from codegen.schemas import Schemas
from tests.autocast.test_parity import WITHOUT_CPU_KERNEL
from tests.support.calls import SETS_A_DTYPE, call, check_call
from tests.support.cases import ALL_CASES, CASES, FIRST_ON_KEY, POLICY, ROOT, Case
from tests.support.probe import is_reachable, kernels_of, probes, reach, region, tensors_of

F64, F32, INT = torch.float64, torch.float32, torch.int64
HALF, BF16 = torch.float16, torch.bfloat16
# The inputs of a call alternate between the dtypes of a list.
FEW = [[F32], [HALF, BF16], [BF16, F32], [HALF, F32]]
MORE = [[HALF], [BF16], [F64], [F64, BF16, F32], [INT], [INT, F32], [torch.complex64]]


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Install a device's kernels, register probes below autocast for its ops, and return the device."""
    name: str = request.param
    names = [case.reaches for case in CASES if case.device == name and not case.is_named]
    with kernels_of(name), probes(name, names):
        yield name


@pytest.mark.parametrize(
    ("device", "case"),
    [pytest.param(case.device, case, id=str(case)) for case in CASES],
    indirect=["device"],
    scope="module",
)
def test_a_rule_casts_its_op_according_to_its_category(device: str, case: Case) -> None:
    """Each category casts the inputs of an op as specified (specification 1.2, 2.1, 2.2, 2.3, 2.4, 2.5 and 2.8)."""
    dump = torch._C._dispatch_dump(f"aten::{case.name}")
    if case.category == "stock":
        assert f"on {device}, from policy.yaml" not in dump
        return
    key = f"{_extension.DEVICES[device].dispatch_key}:"
    (active,) = [line for line in dump.splitlines() if line.startswith(key)]
    assert active.startswith(f"{key} polycast: {case.category} on {device}, from policy.yaml")
    if not is_reachable(device) or case.is_named:
        return  # The calls need an autocast key and unnamed tensors.
    for lower in _extension.DEVICES[device].lower_precision:
        if case.category == "banned":
            (message,) = {rule.message for rule in POLICY.rules() if rule.op == case.op and rule.message}
            with pytest.raises(RuntimeError, match=re.escape(" ".join(message.split()))):
                call(case, [F32], lower)
            continue
        every = lower == _extension.DEVICES[device].lower_precision[0] or case.category in SETS_A_DTYPE
        for given in (*FEW, *MORE, *([narrow, F32] for narrow in narrow_types(device))) if every else FEW:
            check_call(case, given, lower)
        if case.category == "fp32_set_opt_dtype":  # A dtype that the caller passes stays unchanged.
            assert call(case, [F32], lower, dtype=HALF)[1].dtypes == [HALF]


@cache
def narrow_types(device: str) -> list[torch.dtype]:
    """Return the dtypes of less than 16 bits that tensors on the device can have."""
    found = []
    for dtype in NARROW:
        with tensors_of(device), suppress(RuntimeError):
            found.append(torch.empty(1, dtype=dtype, device=device_type_of(device)).dtype)
    assert torch.float8_e4m3fn in found
    return found


def test_the_compiled_rules_equal_policy_yaml() -> None:
    assert {rule[:4] for rule in BUILT_IN} == {case[:4] for case in ALL_CASES}


@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
@pytest.mark.parametrize("name", sorted({case.name for case in CASES} - WITHOUT_SAMPLE.keys() - WITHOUT_CPU_KERNEL))
def test_every_rule_has_a_sample_that_runs(name: str) -> None:
    sample = arguments(name, Make("cpu"))  # An op for which this raises needs a sample in `SAMPLES`.
    assert find(name)(*sample.args) is not None  # type: ignore[misc]


def test_an_overload_similar_to_a_listed_op_is_listed_or_excused() -> None:
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
    file = ROOT / "tests" / "support" / "samples" / "lookalikes.yaml"
    excused = {name for names in yaml.safe_load(file.read_text(encoding="utf-8")).values() for name in names.split()}
    assert unlisted <= excused, f"list these, or excuse them in {file}"


@pytest.mark.parametrize("name", ["addmm.out", "addmm_"])
def test_in_place_calls_and_calls_with_out_are_not_cast(name: str) -> None:
    """In-place calls, and calls with ``out``, run in the dtypes of their inputs (specification 1.5)."""
    make = Make("cpu")
    target, others = make(2, 4), (make(2, 3), make(3, 4))
    calls: dict[str, Callable[..., object]] = {
        "addmm.out": partial(torch.addmm, target, out=target),
        "addmm_": target.addmm_,
    }
    with kernels_of("cpu"), region("cpu", BF16), probes("cpu", [name]):
        reached = reach(lambda: calls[name](*others))
    assert set(reached.tensors) == {F32}


@pytest.mark.parametrize("device", FIRST_ON_KEY)
def test_tensors_on_another_device_are_not_cast(device: str) -> None:
    """A region casts only tensors on a device of its own type (specification 1.1)."""
    if not is_reachable(device):
        pytest.skip(f"fake tensors of {device_type_of(device)} have no autocast key")
    for other in {"cpu", "cuda", "xpu", "mps", "mtia", "meta"} - {device_type_of(device)}:
        with kernels_of(device), FakeTensorMode(), region(device, _extension.DEVICES[device].lower_precision[0]):
            assert torch.mm(Make(other)(2, 2), Make(other)(2, 2)).dtype == F32, other
