"""Checks of a row against the schema of its operator, where the row holds for the installed torch."""

from dataclasses import replace

from codegen.grammar.categories import FUNCTIONAL, Category
from codegen.grammar.errors import Location, did_you_mean
from codegen.grammar.fields import Reader
from codegen.grammar.nodes import Text
from codegen.model import Overload, Registration
from codegen.schemas import Schemas


def check_overload(reader: Reader, schemas: Schemas, op: str, overload: Overload, place: Text) -> bool:
    """Report an overload that the installed torch should have and has not, or that is not functional."""
    if schemas.release not in overload.torch:
        names = {"op": op, "overload": overload.name}
        return all(reader.identifier(replace(place, value=name), what) for what, name in names.items())
    known = schemas.overloads(op)
    if not known:
        reader.report(place.location, f"torch has no op '{op}'", did_you_mean(op, schemas.ops))
        return False
    if overload.name not in known:
        reader.report(
            place.location, f"op '{op}' has no overload '{overload.name}'", did_you_mean(overload.name, known)
        )
        return False
    variant = schemas.signature(op, overload.name).variant
    if variant != FUNCTIONAL:
        what = f"overload '{overload.name}' of op '{op}' is the {variant} variant"
        reader.report(place.location, what, "list functional overloads only; others do not autocast")
        return False
    return True


def check_registration(reader: Reader, schemas: Schemas, row: Registration, place: Location) -> bool:
    """Report a category that the op cannot have."""
    name, category = f"'{row.schema_name}'", row.category.value
    if row.category is Category.BANNED and row.message is None:
        reader.report(place, f"op '{row.op}' is banned without a message", "add 'message', saying what to call instead")
        return False
    if row.category is Category.FALLTHROUGH and row.note is None:
        reader.report(place, f"op '{row.op}' falls through without a note", "write {as: fallthrough, note: why}")
        return False
    if schemas.release not in row.torch:
        return True
    signature, target = schemas.signature(row.op, row.overload.name), row.overload.dtype_overload
    obstacle = signature.obstacle(row.category)
    if row.category is Category.FP32_APPEND_DTYPE and not (
        target in schemas.overloads(row.op) and signature.is_followed_by_dtype(schemas.signature(row.op, target))
    ):
        given = "missing" if target is None else f"'{target}'"
        obstacle = f"its dtype_overload is {given}", "name the overload that takes the same arguments and then a dtype"
    if obstacle is not None:
        what, remedy = obstacle
        reader.report(place, f"{name} is {category} and {what}", remedy)
    return obstacle is None
