"""Rows: the categories of one op by device. Rows are the content of a policy."""

from typing import NamedTuple, TypeAlias

from polycast._extension import DEVICES_LIKE
from polycast.policy.op_names import keys_of
from polycast.policy.rules import ATEN, EVERY


class Cell(NamedTuple):
    """The category of one device in a row, with its keys in the dict or file, and a reason."""

    category: str
    source: str
    note: str = ""


# By device, in the order of DEVICES. With None, the row of the next wider key or the next policy applies.
Row: TypeAlias = tuple[Cell | None, ...]
# By an overload ("aten::pow.Scalar", "aten::mm.default"), an op ("aten::pow") or EVERY. The narrowest key applies.
Rows: TypeAlias = dict[str, Row]
Casts: TypeAlias = str | dict[str, str]  # the value of an op in a dict of rules


def overlaid(under: Row | None, over: Row) -> Row:
    """Merge two rows. The cells of `over` override those of `under`."""
    return over if under is None else tuple(high or low for low, high in zip(under, over, strict=True))


def content_of(row: Row) -> tuple[object, ...]:
    """Return a row without the sources of its cells."""
    return tuple(cell and cell._replace(source="") for cell in row)


def written(rows: Rows) -> dict[str, Casts]:
    """Return the shortest dict from which the rows can be read."""
    names = {key: key.removeprefix(ATEN) for key in rows}
    return {
        name if name == EVERY or keys_of(name) == (key,) else key: _written(rows[key]) for key, name in names.items()
    }


def _written(row: Row) -> Casts:
    """Return the value of a row in a dict. It omits devices that inherit their cell."""
    cells = zip(DEVICES_LIKE, row, strict=True)
    values = {device: cell.category for device, cell in cells if cell is not None}
    first, *rest = values.values()
    if len(values) == len(DEVICES_LIKE) and all(value == first for value in rest):
        return first
    return {device: value for device, value in values.items() if value != values.get(DEVICES_LIKE[device] or "")}
