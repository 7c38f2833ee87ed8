"""Rows: what a policy says of one op, by device. They are joined, made of rules, and written as a dict has them."""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from polycast._extension import DEVICES_LIKE
from polycast.policy.op_names import keys_of
from polycast.policy.rules import ATEN, BY_OVERLOAD, Rule, castable, exact_key, qualified

EVERY = "*"  # the key for every op that the built-in policy lists


class Cell(NamedTuple):
    """What a row says of one device: a category, the place that says so, and the reason."""

    category: str
    source: str
    note: str = ""


# By device, in the order of DEVICES. None says nothing.
Row: TypeAlias = tuple[Cell | None, ...]
# By an overload ("aten::pow.Scalar", "aten::mm.default"), an op ("aten::pow") or EVERY. The narrowest key decides.
Rows: TypeAlias = dict[str, Row]
Casts: TypeAlias = str | dict[str, str]  # what a dict has for an op


def overlaid(under: Row | None, over: Row) -> Row:
    """Return a row over another: its cells, and those of the other where it says nothing."""
    return over if under is None else tuple(high or low for low, high in zip(under, over, strict=True))


def overloads_under(key: str) -> list[str]:
    """Return the overloads that a row can be for, by their names in the dispatcher."""
    return list(BY_OVERLOAD) if key == EVERY else [key.removesuffix(".default")] if "." in key else castable(key)


def rows_of(rules: Iterable[Rule]) -> Rows:
    """Return the rows of rules for single overloads and devices."""
    cells: dict[str, dict[str, Cell]] = {}
    for rule in rules:
        cells.setdefault(exact_key(qualified(rule.name)), {})[rule.device] = Cell(rule.category, rule.source, rule.note)
    return shortened({key: tuple(map(devices.get, DEVICES_LIKE)) for key, devices in cells.items()})


def shortened(rows: Rows) -> Rows:
    """Return rows without those for single overloads that one for the op can replace."""
    ops: dict[str, list[str]] = {}
    for key in [key for key in rows if "." in key]:
        ops.setdefault(key.partition(".")[0], []).append(key)
    short = dict(rows)
    for op, keys in ops.items():
        said = {_without_source(rows[key]) for key in keys}
        if op in rows and said == {_without_source(rows[op])}:
            short = {key: row for key, row in short.items() if key not in keys}
        elif op not in rows and len(said) == 1 and {*keys} == {*map(exact_key, castable(op))}:
            # The row of the op stands where the first of its overloads stood.
            short = {op if key == keys[0] else key: row for key, row in short.items() if key not in keys[1:]}
    return short


def written(rows: Rows) -> dict[str, Casts]:
    """Return the shortest dict from which the rows can be read."""
    names = {key: key.removeprefix(ATEN) for key in rows}
    return {
        name if name == EVERY or keys_of(name) == (key,) else key: _written(rows[key]) for key, name in names.items()
    }


def _written(row: Row) -> Casts:
    """Return a row as a dict has it. It leaves out a device that has the cell of the device that it is like."""
    cells = zip(DEVICES_LIKE, row, strict=True)
    values = {device: cell.category for device, cell in cells if cell is not None}
    first, *rest = values.values()
    if len(values) == len(DEVICES_LIKE) and all(value == first for value in rest):
        return first
    return {device: value for device, value in values.items() if value != values.get(DEVICES_LIKE[device] or "")}


def _without_source(row: Row) -> tuple[object, ...]:
    return tuple(cell and cell._replace(source="") for cell in row)
