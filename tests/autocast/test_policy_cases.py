"""Every rule of the policy, on its device: the dtypes in which its op is called below autocast.

The test names no operator. It calls the overload in a region, with arguments made from its schema, and compares what a
probe below autocast is handed with what the sentence of the rule's category says.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

import polycast
import pytest
import torch
from polycast import _compiled
from polycast.backends import device_type_of
from polycast.debug.verification.outcomes import NARROW, expected
from polycast.policy.rules import BUILT_IN

from codegen.schemas import Schemas
from tests.support.calls import call
from tests.support.cases import ALL_CASES, CASES, POLICY, Case
from tests.support.probe import is_reachable, kernels_of, probes, tensors_of
from tests.support.tally import Tally

F64, F32, INT = torch.float64, torch.float32, torch.int64
HALF, BF16 = torch.float16, torch.bfloat16


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest) -> Tally:
    tally = Tally("Rules reached by a real dispatch")
    request.config.pluginmanager.register(tally)
    return tally


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The device under test, its kernels installed and its ops probed."""
    name: str = request.param
    names = [case.reaches for case in CASES if case.device == name and not _is_named(case)]
    with kernels_of(name), probes(name, names):
        yield name


def _cases_of(*categories: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    cases = [case for case in CASES if case.category in categories]
    assert cases, f"the policy has no rule of {categories}"
    return pytest.mark.parametrize(
        ("device", "case"),
        [pytest.param(case.device, case, id=str(case)) for case in cases],
        indirect=["device"],
        scope="module",
    )


def test_the_compiled_rules_are_those_of_policy_yaml() -> None:
    assert {rule[:4] for rule in BUILT_IN} == {case[:4] for case in ALL_CASES}


@_cases_of(*(set(polycast.policy.categories()) - {"stock"}))
def test_the_kernel_in_force_is_the_policys(device: str, case: Case) -> None:
    key = f"{_compiled.DEVICES[device].dispatch_key}:"
    dump = torch._C._dispatch_dump(f"aten::{case.name}").splitlines()
    (active,) = [line for line in dump if line.startswith(key)]
    assert active.startswith(f"{key} polycast: {case.category} on {device}, from policy.yaml")


@_cases_of("stock")
def test_stock_rules_keep_the_kernel_of_torch(device: str, case: Case) -> None:
    assert f"on {device}, from policy.yaml" not in torch._C._dispatch_dump(f"aten::{case.name}")


@_cases_of("lower_precision_fp", "fp32", "promote", "input_dtype")
def test_inputs_arrive_in_the_type_of_the_category(device: str, case: Case, tally: Tally) -> None:
    with tally.count(device):
        _skip_unreachable(case)
        for lower in _compiled.DEVICES[device].lower_precision:
            plain = [[F32], [HALF], [BF16], [lower, F32], [HALF, BF16], [F64], [F64, lower, F32], [INT], [INT, F32]]
            for given in (*plain, *([narrow, F32] for narrow in narrow_types(device))):
                made, reached = call(case, given, lower)
                assert reached.name == case.reaches
                assert reached.tensors == expected(case.category, made, lower), f"given {made} in {lower}"


@cache
def narrow_types(device: str) -> list[torch.dtype]:
    """Return the dtypes of less than 16 bits that tensors on the device can have."""
    found = []
    for dtype in NARROW:
        with tensors_of(device), suppress(RuntimeError):
            found.append(torch.empty(1, dtype=dtype, device=device_type_of(device)).dtype)
    assert torch.float8_e4m3fn in found
    return found


@_cases_of("fp32_set_opt_dtype", "fp32_append_dtype")
def test_the_dtype_argument_is_set_for_eligible_inputs_and_respected(device: str, case: Case, tally: Tally) -> None:
    with tally.count(device):
        _skip_unreachable(case)
        appends = case.category == "fp32_append_dtype"
        for lower in _compiled.DEVICES[device].lower_precision:
            for given in (F32, HALF, BF16, F64, INT, *narrow_types(device)):
                _, reached = call(case, [given], lower)
                assert reached.name == case.reaches
                assert reached.tensors == [given]
                wanted = [F32] if given in (F32, HALF, BF16) else [given] if appends else []
                assert reached.dtypes == wanted, f"given {given} in {lower}"
            if not appends:
                _, reached = call(case, [F32], lower, dtype=HALF)
                assert reached.dtypes == [HALF]


@_cases_of("banned")
def test_banned_ops_raise_their_message(device: str, case: Case, tally: Tally) -> None:
    with tally.count(device):
        _skip_unreachable(case)
        (message,) = {rule.message for rule in POLICY.rules() if rule.op == case.op and rule.message}
        with pytest.raises(RuntimeError, match=re.escape(" ".join(message.split()))):
            call(case, [F32], _compiled.DEVICES[device].lower_precision[0])


@cache
def _schemas() -> Schemas:
    return Schemas.installed()


@cache
def _is_named(case: Case) -> bool:
    return "Dimname" in str(_schemas().find(case.op, case.overload))


def _skip_unreachable(case: Case) -> None:
    if not is_reachable(case.device):
        pytest.skip(f"fake tensors of {case.device} carry no autocast key: only the registration is checked")
    if _is_named(case):
        pytest.skip("a named tensor cannot be passed to the dispatcher from Python: only its registration is checked")
