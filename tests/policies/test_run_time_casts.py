"""Ops under rules made at run time: the dtypes in which each is called below autocast, on any device."""

import polycast
import torch
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from polycast.debug.verification.outcomes import expected
from polycast.policy.rules import BUILT_IN

from codegen.schemas import Schemas
from tests.support.calls import call
from tests.support.cases import FIRST_ON_KEY, POLICY, Case
from tests.support.probe import in_force, is_reachable, kernels_of, probes
from tests.support.properties import examples

F64, F32, INT, HALF, BF16 = torch.float64, torch.float32, torch.int64, torch.float16, torch.bfloat16
EXPLICIT = {"float16": HALF, "bfloat16": BF16, "float64": F64}
CATEGORIES = (
    *("lower_precision_fp", "fp32", "promote", "input_dtype", "banned"),
    *("fp32_set_opt_dtype", "fp32_append_dtype"),
)
GIVEN = ([F32], [HALF], [BF16, F32], [F64, HALF], [INT, F32])


def policy_of(trial: Case) -> polycast.Policy | None:
    """Return the rule that gives an overload a category or a dtype on a device; None where it cannot take that."""
    try:
        return polycast.Policy({f"aten::{trial.op}.{trial.overload}": {trial.device: trial.category}})
    except polycast.policy.policy.PolicyError:
        return None


# Torch's own kernel, which no rule changes, and what takes names, which cannot be passed from Python.
_STOCK = {(rule.op, rule.overload, rule.device) for rule in BUILT_IN if rule.category == "stock"}
_SCHEMAS = Schemas.installed()
LISTED = [
    (op, overload)
    for op, overload in dict.fromkeys((rule.op, rule.overload) for rule in BUILT_IN)
    if "Dimname" not in str(_SCHEMAS.find(op, overload))
]
_DTYPE_OVERLOADS = {(rule.op, rule.overload.name): rule.overload.dtype_overload for rule in POLICY.rules()}
REACHABLE = [device for device in FIRST_ON_KEY if is_reachable(device)]


def _outside() -> list[tuple[str, str]]:
    """Return the overloads that the base does not list and that a call can be made of."""
    listed = {rule.op for rule in BUILT_IN}
    names = (name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    split = ((op, overload or "default") for op, _, overload in (name.partition(".") for name in sorted(names)))
    return [
        (op, overload)
        for op, overload in split
        if op not in listed and not op.startswith("_") and _can_be_made(op, overload)
    ]


def _can_be_made(op: str, overload: str) -> bool:
    """Whether a call can be made from its schema: functional, with a tensor, and without what has no value here."""
    packet = getattr(torch.ops.aten, op, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket) or overload not in packet.overloads():  # type: ignore[no-untyped-call]
        return False
    schema = getattr(packet, overload)._schema
    kinds = [str(argument.type) for argument in schema.arguments]
    strange = (
        *("Dimname", "Generator", "Storage", "Device", "Layout", "Stream"),
        *("Any", "Dict", "Future", "__torch__"),
    )
    return (
        not schema.is_mutable
        and all(argument.alias_info is None for argument in schema.arguments)  # rules refuse views
        and any("Tensor" in kind for kind in kinds)
        and not any(kind == "t" or word in kind for kind in kinds for word in strange)
    )


def check(op: str, overload: str, device: str, value: str) -> None:
    """Give an overload a rule and call it; a rule that it cannot take is not drawn again."""
    target = _DTYPE_OVERLOADS.get((op, overload)) if value == "fp32_append_dtype" else None
    case = Case(op, overload, device, value, "", "")
    trial = case._replace(reaches=f"{op}.{target}" if target else case.name)
    assume((op, overload, device) not in _STOCK)
    policy = policy_of(trial)
    if policy is None:
        reject()
    with kernels_of(device), probes(device, {trial.name, trial.reaches}), in_force(policy):
        _check_calls(trial)


def _check_calls(trial: Case) -> None:
    for lower in polycast._compiled.DEVICES[trial.device].lower_precision:
        for types in GIVEN:
            try:
                made, reached = call(trial, types, lower)
            except RuntimeError as error:
                if trial.category == "banned" and "is banned on" in str(error):
                    continue
                raise
            wanted, dtypes = _expected(trial.category, made, lower)
            assert (reached.name, reached.tensors) == (trial.reaches, wanted), (made, lower)
            assert dtypes is None or reached.dtypes == dtypes, (made, lower)


def _expected(
    value: str, made: list[torch.dtype], lower: torch.dtype
) -> tuple[list[torch.dtype], list[torch.dtype] | None]:
    """Return the dtypes of the tensors, and of the dtype arguments where they count."""
    if value in EXPLICIT:
        return expected("lower_precision_fp", made, EXPLICIT[value]), None
    if value in ("fp32_set_opt_dtype", "fp32_append_dtype"):
        eligible = made[0] in (F32, HALF, BF16)
        return made, [F32] if eligible else [made[0]] if value == "fp32_append_dtype" else []
    return expected(value, made, lower), None


@given(op=st.sampled_from(LISTED), device=st.sampled_from(REACHABLE), value=st.sampled_from((*CATEGORIES, *EXPLICIT)))
@examples(60)
def test_ops_of_the_base_arrive_in_the_type_of_their_rule(op: tuple[str, str], device: str, value: str) -> None:
    check(*op, device, value)


@given(
    op=st.sampled_from(_outside()),
    device=st.sampled_from(REACHABLE),
    value=st.sampled_from(("lower_precision_fp", "fp32", "float64")),
)
@examples(30)
def test_ops_outside_of_the_base_arrive_in_the_type_of_their_rule(op: tuple[str, str], device: str, value: str) -> None:
    check(*op, device, value)
