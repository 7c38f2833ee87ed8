"""Every row of the policy, on its device: the types in which its op is called below autocast.

The test names no operator. It calls the overload in a region, with arguments made from its schema, and compares what a
probe below autocast is handed with what the sentence of the row's category says.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

import polycast
import pytest
import torch
from polycast import _compiled

from codegen.schemas import Schemas
from testing.calls import call
from testing.cases import CASES, NARROW, POLICY, Case, expected
from testing.probe import device_type, is_reachable, kernels_of, probes, tensors_of
from testing.tally import Tally

F64, F32, INT = torch.float64, torch.float32, torch.int64
HALF, BF16 = torch.float16, torch.bfloat16


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest) -> Tally:
    tally = Tally("Rows reached by a real dispatch")
    request.config.pluginmanager.register(tally)
    return tally


@pytest.fixture(scope="module")
def column(request: pytest.FixtureRequest) -> Iterator[str]:
    """The column under test, its kernels installed and its ops probed."""
    name: str = request.param
    names = [case.reaches for case in CASES if case.device == name and not _is_named(case)]
    with kernels_of(name), probes(name, names):
        yield name


def _rows_of(*categories: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    cases = [case for case in CASES if case.category in categories]
    assert cases, f"the policy has no row of {categories}"
    return pytest.mark.parametrize(
        ("column", "case"),
        [pytest.param(case.device, case, id=str(case)) for case in cases],
        indirect=["column"],
        scope="module",
    )


@_rows_of(*(set(polycast.policy.categories()) - {"stock"}))
def test_the_kernel_in_force_is_the_policys(column: str, case: Case) -> None:
    key = f"{_compiled.DEVICES[column].dispatch_key}:"
    dump = torch._C._dispatch_dump(f"aten::{case.name}").splitlines()
    (active,) = [line for line in dump if line.startswith(key)]
    assert active.startswith(f"{key} polycast: {case.category} on {column}, from policy.yaml")


@_rows_of("stock")
def test_stock_rows_keep_the_kernel_of_torch(column: str, case: Case) -> None:
    assert f"on {column}, from policy.yaml" not in torch._C._dispatch_dump(f"aten::{case.name}")


@_rows_of("lower_precision_fp", "fp32", "promote", "fallthrough")
def test_inputs_arrive_in_the_type_of_the_category(column: str, case: Case, tally: Tally) -> None:
    with tally.count(column):
        _skip_unreachable(case)
        for lower in _compiled.DEVICES[column].lower_precision:
            plain = [[F32], [HALF], [BF16], [lower, F32], [HALF, BF16], [F64], [F64, lower, F32], [INT], [INT, F32]]
            for given in (*plain, *([narrow, F32] for narrow in narrow_types(column))):
                made, reached = call(case, given, lower)
                assert reached.name == case.reaches
                assert reached.tensors == expected(case.category, made, lower), f"given {made} in {lower}"


@cache
def narrow_types(column: str) -> list[torch.dtype]:
    """Return the types of less than 16 bits that tensors on the device can have."""
    found = []
    for dtype in NARROW:
        with tensors_of(column), suppress(RuntimeError):
            found.append(torch.empty(1, dtype=dtype, device=device_type(column)).dtype)
    assert torch.float8_e4m3fn in found
    return found


@_rows_of("fp32_set_opt_dtype", "fp32_append_dtype")
def test_the_dtype_argument_is_set_for_eligible_inputs_and_respected(column: str, case: Case, tally: Tally) -> None:
    with tally.count(column):
        _skip_unreachable(case)
        appends = case.category == "fp32_append_dtype"
        for lower in _compiled.DEVICES[column].lower_precision:
            for given in (F32, HALF, BF16, F64, INT, *narrow_types(column)):
                _, reached = call(case, [given], lower)
                assert reached.name == case.reaches
                assert reached.tensors == [given]
                wanted = [F32] if given in (F32, HALF, BF16) else [given] if appends else []
                assert reached.dtypes == wanted, f"given {given} in {lower}"
            if not appends:
                _, reached = call(case, [F32], lower, dtype=HALF)
                assert reached.dtypes == [HALF]


@_rows_of("banned")
def test_banned_ops_raise_their_message(column: str, case: Case, tally: Tally) -> None:
    with tally.count(column):
        _skip_unreachable(case)
        (message,) = {row.message for row in POLICY.rules() if row.op == case.op and row.message}
        with pytest.raises(RuntimeError, match=re.escape(" ".join(message.split()))):
            call(case, [F32], _compiled.DEVICES[column].lower_precision[0])


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
