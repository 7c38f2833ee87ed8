"""Checks of a row against the schema of its operator, where the row holds for the installed torch."""

from dataclasses import replace

from torchgen.model import BaseTy, BaseType, FunctionSchema, OptionalType, SchemaKind

from codegen.errors import Location, did_you_mean
from codegen.fields import Reader
from codegen.load import Text
from codegen.model import Category, Overload, Registration
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
    kind = schemas.find(op, overload.name).kind()
    if kind is not SchemaKind.functional:
        what = f"overload '{overload.name}' of op '{op}' is the {kind.name} variant"
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
    schema = schemas.find(row.op, row.overload.name)
    if row.category is Category.FP32_SET_OPT_DTYPE and not _takes_optional_dtype(schema):
        reader.report(place, f"{name} is {category} and takes no optional dtype", "use fp32")
        return False
    if row.category is Category.FP32_APPEND_DTYPE and not _appends_dtype(schemas, row, schema):
        reader.report(
            place,
            f"{name} is {category} and its dtype_overload is {_quoted(row.overload.dtype_overload)}",
            "name the overload that takes the same arguments and then a dtype",
        )
        return False
    if row.category is Category.PROMOTE and _tensors(schema) < 2:
        reader.report(place, f"{name} is {category} and takes one tensor", "use fp32 or lower_precision_fp")
        return False
    return True


def _takes_optional_dtype(schema: FunctionSchema) -> bool:
    wanted = OptionalType(BaseType(BaseTy.ScalarType))
    return any(argument.type == wanted for argument in schema.arguments.flat_all)


def _appends_dtype(schemas: Schemas, row: Registration, schema: FunctionSchema) -> bool:
    target = row.overload.dtype_overload
    if target is None or target not in schemas.overloads(row.op):
        return False
    plain = [argument.name for argument in schema.arguments.flat_all]
    longer = [(argument.name, argument.type) for argument in schemas.find(row.op, target).arguments.flat_all]
    return [name for name, _ in longer[:-1]] == plain and longer[-1][1] == BaseType(BaseTy.ScalarType)


def _tensors(schema: FunctionSchema) -> int:
    """Count the tensors that a call can bring; a list counts as many."""
    return sum(
        2 if argument.type.is_list_like() is not None else 1
        for argument in schema.arguments.flat_all
        if argument.type.is_tensor_like()
    )


def _quoted(name: str | None) -> str:
    return "missing" if name is None else f"'{name}'"
