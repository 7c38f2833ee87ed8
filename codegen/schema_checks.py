"""Checks of rules against the operator schemas of the installed PyTorch."""

from .categories import Category
from .fields import Reader
from .model import Overload, Rule
from .schemas import Schemas
from .yaml_nodes import Node, Text, renamed


def check_overload(reader: Reader, schemas: Schemas, op: str, overload: Overload, place: Text) -> bool:
    """Report an overload that the installed PyTorch lacks or that cannot be cast. Return whether it has no problem."""
    if schemas.release not in overload.torch:
        names = {"op": op, "overload": overload.name}
        return all(reader.identifier(renamed(place, name), what) for what, name in names.items())
    known = schemas.overloads(op)
    if not known:
        reader.report_unknown(place, f"the installed PyTorch has no op '{op}'", op, schemas.ops)
        return False
    if overload.name not in known:
        reader.report_unknown(place, f"op '{op}' has no overload '{overload.name}'", overload.name, known)
        return False
    reason = schemas.signature(op, overload.name).uncastable()
    if reason is not None:
        what, remedy = reason
        reader.report(place, f"overload '{overload.name}' of op '{op}' {what}", remedy)
    return reason is None


def check_rule(reader: Reader, schemas: Schemas, rule: Rule, place: Node) -> bool:
    """Report a category that the overload cannot have. Return whether the rule has no problem."""
    name, category = f"'{rule.schema_name}'", rule.category.value
    if rule.category is Category.BANNED and rule.message is None:
        reader.report(
            place, f"op '{rule.op}' is banned without a message", "add a 'message' that names the op to call instead"
        )
        return False
    if rule.category is Category.INPUT_DTYPE and rule.note is None:
        reader.report(place, f"op '{rule.op}' is input_dtype without a note", "write {as: input_dtype, note: why}")
        return False
    if rule.category is Category.STOCK and rule.note is None and not schemas.may_keep_kernel(rule):
        what = f"'{rule.op}' is stock on {rule.device}, where PyTorch registers no kernel of its own"
        reader.report(place, what, "remove it there, or write {as: stock, note: whose kernel runs}")
    if schemas.release not in rule.torch:
        return True
    signature, target = schemas.signature(rule.op, rule.overload.name), rule.overload.dtype_overload
    obstacle = signature.obstacle(rule.category)
    if rule.category is Category.FP32_APPEND_DTYPE and not (
        target in schemas.overloads(rule.op) and signature.is_followed_by_dtype(schemas.signature(rule.op, target))
    ):
        given = "no dtype_overload" if target is None else f"the dtype_overload '{target}'"
        obstacle = f"has {given}", "name the overload that takes the same arguments and then a dtype"
    if obstacle is not None:
        what, remedy = obstacle
        reader.report(place, f"{name} cannot be {category}: it {what}", remedy)
    return obstacle is None
