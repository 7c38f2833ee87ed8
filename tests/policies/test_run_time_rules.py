"""Ops under policies, on real or fake tensors of each device: listed ops, the ops that they run, and custom ops."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import polycast
import pytest
import torch
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from polycast import Policy
from polycast._extension import DEVICES
from polycast.cast_by_hand import expected
from polycast.devices import device_type_of
from polycast.policy.rules import BUILT_IN
from polycast.scope.scopes import over
from torch import Tensor

from codegen.schemas import Schemas
from tests.support.calls import EXPLICIT, SETS_A_DTYPE, call, check_call
from tests.support.cases import FIRST_ON_KEY, POLICY, Case
from tests.support.probe import is_reachable, kernels_of, probes, region, tensors_of
from tests.support.properties import examples

F64, F32, INT, HALF, BF16 = torch.float64, torch.float32, torch.int64, torch.float16, torch.bfloat16
REACHABLE = [device for device in FIRST_ON_KEY if is_reachable(device)]
CATEGORIES = ("lower_precision_fp", "fp32", "promote", "input_dtype", "banned", *SETS_A_DTYPE)

# The tests omit PyTorch's own kernels, which no rule changes, and dimension names, which Python cannot pass.
_STOCK = {(rule.op, rule.overload, rule.device) for rule in BUILT_IN if rule.category == "stock"}
_SCHEMAS = Schemas.installed()
LISTED = [
    (op, overload)
    for op, overload in dict.fromkeys((rule.op, rule.overload) for rule in BUILT_IN)
    if "Dimname" not in str(_SCHEMAS.find(op, overload))
]
_DTYPE_OVERLOADS = {(rule.op, rule.overload.name): rule.overload.dtype_overload for rule in POLICY.rules()}


@given(op=st.sampled_from(LISTED), device=st.sampled_from(REACHABLE), value=st.sampled_from((*CATEGORIES, *EXPLICIT)))
@examples(60)
def test_a_listed_op_arrives_in_the_dtype_of_its_rule(op: tuple[str, str], device: str, value: str) -> None:
    """Below autocast, a call has the dtypes of the rule's category (specification 2.1, 2.2, 2.3, 2.4 and 2.5)."""
    target = _DTYPE_OVERLOADS.get(op) if value == "fp32_append_dtype" else None
    case = Case(*op, device, value, "", "")
    case = case._replace(reaches=f"{case.op}.{target}" if target else case.name)
    assume((*op, device) not in _STOCK)
    try:
        policy = Policy({f"aten::{case.op}.{case.overload}": {device: value}})
    except polycast.PolicyError:  # The op cannot have the rule.
        reject()
    with kernels_of(device), probes(device, {case.name, case.reaches}), over(policy):
        for lower in DEVICES[device].lower_precision:
            for given_dtypes in ([F32], [HALF], [BF16, F32], [F64, HALF], [INT, F32]):
                if value == "banned":
                    with pytest.raises(RuntimeError, match="is banned on"):
                        call(case, given_dtypes, lower)
                else:
                    check_call(case, given_dtypes, lower)


LIBRARY = torch.library.Library("customs", "DEF")  # type: ignore[no-untyped-call]


@contextmanager
def under(device: str, rules: dict[str, object]) -> Iterator[None]:
    """Enter a region of the device, with its kernels and these rules."""
    lower = DEVICES[device].lower_precision[0]
    with kernels_of(device), tensors_of(device), region(device, lower), over(Policy(rules)):
        yield


seen: list[torch.dtype | None] = []


def _record(*values: Any) -> Tensor:
    """Record the dtypes of tensors and the dtypes among the arguments, and return a new tensor."""
    items = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
    seen.extend(item if isinstance(item, torch.dtype) else item.dtype for item in items if item is not None)
    return torch.empty_like(items[0])


SCHEMAS: dict[str, Callable[..., Tensor]] = {
    "attend(Tensor query, Tensor[] memory, Tensor? mask, float scale) -> Tensor": lambda q, m, k, _: _record(q, m, k),
    "gather(Tensor self, Tensor?[] indices) -> Tensor": _record,
    "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor": lambda x, dtype=None: _record(x, dtype),
}
for schema, kernel in SCHEMAS.items():
    LIBRARY.define(schema)  # type: ignore[no-untyped-call]
    LIBRARY.impl(schema.partition("(")[0], kernel, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


def tensor(device: str, dtype: torch.dtype) -> Tensor:
    return torch.empty(2, dtype=dtype, device=device_type_of(device))


def called(name: str, *args: object, **kwargs: object) -> list[torch.dtype | None]:
    """Call an operator, and return the dtypes that its kernel receives."""
    seen.clear()
    getattr(torch.ops.customs, name)(*args, **kwargs)
    return [*seen]


@pytest.mark.parametrize(
    ("device", "value"),
    [
        *((device, "lower_precision_fp") for device in REACHABLE),
        *(("cpu", value) for value in ("fp32", "promote", "input_dtype", "float64", "float16")),
    ],
)
def test_lists_and_optional_tensors_of_a_custom_operator_are_cast(device: str, value: str) -> None:
    """Elements of lists and optional tensors are cast like other tensors (specification 1.3)."""
    lower = EXPLICIT.get(value, DEVICES[device].lower_precision[0])
    category = "lower_precision_fp" if value in EXPLICIT else value
    with under(device, {"customs::attend": value, "torch.ops.customs.gather": value}):
        for dtypes in ([F32, HALF, BF16, F32], [HALF, HALF, HALF, HALF], [F64, F32, F64, INT]):
            first, *rest, mask = (tensor(device, dtype) for dtype in dtypes)
            assert called("attend", first, rest, mask, 1.0) == expected(category, dtypes, lower)
            assert called("attend", first, [], None, 1.0) == expected(category, dtypes[:1], lower)
            assert called("gather", first, [None, rest[0]]) == expected(category, dtypes[:2], lower)


@pytest.mark.parametrize("device", REACHABLE)
def test_the_dtype_argument_of_a_custom_operator_is_set_and_a_banned_call_raises(device: str) -> None:
    with under(device, {"customs::mean": "fp32_set_opt_dtype", "customs::gather": "banned"}):
        assert called("mean", tensor(device, HALF)) == [HALF, F32]
        assert called("mean", tensor(device, HALF), dtype=F64) == [HALF, F64]
        assert called("mean", tensor(device, INT)) == [INT]
        with pytest.raises(RuntimeError, match=f"is banned on {device} by the rule 'Policy: customs::gather'"):
            called("gather", tensor(device, F32), [])


def test_a_rule_for_an_operator_with_its_own_autocast_kernel_raises() -> None:
    LIBRARY.define("own(Tensor self) -> Tensor")  # type: ignore[no-untyped-call]
    LIBRARY.impl("own", torch.library.fallthrough_kernel, "AutocastCPU")  # type: ignore[no-untyped-call]
    region = polycast.autocast("cpu", policy=Policy({"customs::own": "fp32"}))
    with pytest.raises(ValueError, match="customs::own: a policy cannot override this operator's own"), region:
        pass
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    library.impl("relu", torch.library.fallthrough_kernel, "AutocastCPU")  # type: ignore[no-untyped-call]
    with polycast.autocast("cpu", policy="fp32"):  # The rule for every op does not replace the library's kernel.
        library._destroy()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("norm", "dtype", "rules"),
    [
        (torch.nn.BatchNorm1d(2), F32, "bf16"),
        (torch.nn.BatchNorm1d(2), BF16, "fp32"),
        (torch.nn.BatchNorm1d(2), BF16, {"batch_norm": "promote"}),
        (torch.nn.InstanceNorm1d(2, track_running_stats=True), BF16, "fp32"),
        (torch.nn.InstanceNorm1d(2, track_running_stats=True), BF16, {"instance_norm": "fp32"}),
    ],
)
def test_running_statistics_are_updated_under_a_rule(norm: torch.nn.Module, dtype: torch.dtype, rules: Any) -> None:
    x, stock = torch.randn(2, 2, 9) + 5, deepcopy(norm)
    stock(x)
    with polycast.autocast("cpu", policy=rules):
        norm.to(dtype)(x)
        norm.eval()(x)
    for name, mine in norm.named_buffers():
        torch.testing.assert_close(mine, stock.get_buffer(name).to(mine.dtype), rtol=0.02, atol=0.02)


def test_a_policy_applies_to_the_operators_of_a_library_that_is_imported_after_its_first_use() -> None:
    row = Policy({"customs::mean": "float16"})._rows["customs::mean"]
    for name, key in {"late": "customs::late", "later": "customs::later.default"}.items():
        policy = Policy._with({key: row})
        with polycast.autocast("cpu", policy=policy):
            LIBRARY.define(f"{name}(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]
            LIBRARY.impl(name, _record, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]
        with polycast.autocast("cpu", policy=policy):
            assert called(name, tensor("cpu", F32)) == [HALF]


def test_gradients_pass_through_a_cast_of_a_custom_operator() -> None:
    """The gradient has the dtype of the tensor that was cast (specification 1.6)."""

    @torch.library.custom_op("customs::double", mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x * 2

    double.register_autograd(lambda _, gradient: gradient * 2)
    x = torch.ones(2, requires_grad=True)
    with polycast.autocast("cpu", policy=Policy({"customs::double": "lower_precision_fp"})):
        y = double(x)
    y.sum().backward()
    assert x.grad is not None
    assert (y.dtype, x.grad.dtype, x.grad.tolist()) == (BF16, F32, [2.0, 2.0])


@pytest.mark.parametrize(("value", "dtype"), [("input_dtype", F32), ("fp32", F32), ("unlisted", BF16)])
def test_only_an_unlisted_op_leaves_the_ops_that_it_runs_to_their_rules(value: str, dtype: torch.dtype) -> None:
    """``linear`` runs ``matmul`` or ``addmm``, whose built-in rules cast to bfloat16."""
    with polycast.autocast("cpu", policy={"linear": value}):
        assert torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2)).dtype is dtype


@pytest.mark.parametrize("run", [Tensor.norm, torch.norm, torch.nn.functional.normalize, lambda x: x.norm(dim=1)])
def test_a_rule_for_norm_applies_to_the_ops_that_functions_named_norm_run(run: Callable[[Tensor], Tensor]) -> None:
    with polycast.autocast("cpu", policy={"norm": "fp32"}):
        assert run(torch.ones(3, 3, dtype=torch.bfloat16)).dtype == torch.float32
    assert polycast.Policy({"aten::norm": "fp32"}).rules == {"aten::norm": "fp32"}
