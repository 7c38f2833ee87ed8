"""Rows as rules again, and as tables: one entry for an op whose overloads are all given the same."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from polycast._compiled import DEVICES_LIKE
from polycast._text_table import lines_of
from polycast.policy.operators import castable, shown
from polycast.policy.rows import PatchRow

Value: TypeAlias = str | dict[str, str]
Rule: TypeAlias = Value | dict[str, Value]
Key: TypeAlias = tuple[str, str, str]
Cell = TypeVar("Cell")


def rules_of(rows: Iterable[PatchRow]) -> dict[str, Rule]:
    """Return the rules that give these rows."""
    cells: dict[Key, tuple[str, str]] = {row.key: (row.value, row.note) for row in rows}
    return {op: _rule(columns) for op, columns in _by_op(cells).items()}


def table_of(cells: Mapping[Key, tuple[str, ...]], *titles: str) -> str:
    """Return a table of what each overload has on each column; columns that have the same share a line."""
    lines: list[tuple[str, ...]] = [("op", "device", *titles)]
    for op, columns in _by_op(cells).items():
        for cell in dict.fromkeys(columns.values()):
            held = [column for column in columns if columns[column] == cell]
            lines.append((op, "all" if len(held) == len(DEVICES_LIKE) else ", ".join(held), *cell))
    return "\n".join(lines_of(lines))


def _by_op(cells: Mapping[Key, Cell]) -> dict[str, dict[str, Cell]]:
    """Return the cells of each op by column; those of each overload where they differ or one has none."""
    ops: dict[str, dict[str, dict[str, Cell]]] = {}
    for name, overload, column in cells:
        ops.setdefault(name, {}).setdefault(overload, {})[column] = cells[name, overload, column]
    found: dict[str, dict[str, Cell]] = {}
    for name, overloads in ops.items():
        first, *rest = overloads.values()
        if all(other == first for other in rest) and overloads.keys() == castable(name).keys():
            found[shown(name)] = first
        else:
            found |= {f"{shown(name)}.{overload}": columns for overload, columns in overloads.items()}
    return found


def _rule(columns: Mapping[str, tuple[str, str]]) -> Rule:
    """Return the rule for an op or overload; it names no device that takes what the one that it is like takes."""
    values: dict[str, Value] = {
        column: {"as": columns[column][0], "note": columns[column][1]} if columns[column][1] else columns[column][0]
        for column in DEVICES_LIKE
        if column in columns
    }
    one = next(iter(values.values()))
    if values.keys() == DEVICES_LIKE.keys() and all(value == one for value in values.values()):
        return one
    return {column: value for column, value in values.items() if value != values.get(DEVICES_LIKE[column] or "")}
