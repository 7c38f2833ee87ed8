"""Checks the rows that hold for the installed torch against its operator schemas."""

from dataclasses import replace

from polycast._grammar.categories import Category
from polycast._grammar.errors import Location
from polycast._grammar.fields import Reader
from polycast._grammar.nodes import Text

from codegen.model import Overload, Registration
from codegen.schemas import Schemas


def check_overload(reader: Reader, schemas: Schemas, op: str, overload: Overload, place: Text) -> bool:
    """Report an overload that the installed torch lacks, or that cannot be cast. Return whether it is sound."""
    if schemas.release not in overload.torch:
        names = {"op": op, "overload": overload.name}
        return all(reader.identifier(replace(place, value=name), what) for what, name in names.items())
    known = schemas.overloads(op)
    if not known:
        reader.report_unknown(place.location, f"torch has no op '{op}'", op, schemas.ops)
        return False
    if overload.name not in known:
        reader.report_unknown(place.location, f"op '{op}' has no overload '{overload.name}'", overload.name, known)
        return False
    reason = schemas.signature(op, overload.name).uncastable()
    if reason is not None:
        what, remedy = reason
        reader.report(place.location, f"overload '{overload.name}' of op '{op}' {what}", remedy)
    return reason is None


def check_registration(reader: Reader, schemas: Schemas, row: Registration, place: Location) -> bool:
    """Report a category that the overload cannot have. Return whether it is sound."""
    name, category = f"'{row.schema_name}'", row.category.value
    if row.category is Category.BANNED and row.message is None:
        reader.report(
            place, f"op '{row.op}' is banned without a message", "add a 'message' that says what to call instead"
        )
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


def check_kept_kernels(reader: Reader, schemas: Schemas, rows: list[tuple[Registration, Location]]) -> None:
    """Report the stock rows of an op on devices for which no recorded release of torch registers a kernel.

    A row with a note is not reported: it keeps the kernel of a backend outside of torch, which is not recorded.
    """
    missed: dict[Location, dict[str, None]] = {}
    for row, place in rows:
        if row.category is Category.STOCK and row.note is None:
            records = [record for record in schemas.history.values() if record.number in row.torch]
            held = [record.category(row.op, row.overload.name, row.device) for record in records]
            if held and Category.STOCK.value not in held:
                missed.setdefault(place, {})[row.device] = None
    for place, devices in missed.items():
        what = f"'{rows[0][0].op}' is stock on {', '.join(devices)}, where torch registers no kernel of its own"
        reader.report(place, what, "remove it there, or write {as: stock, note: whose kernel it keeps}")
