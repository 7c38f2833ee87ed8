"""Rules written as a file or a dict has them, and tables: one entry for an op whose overloads all have the same."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from polycast._compiled import DEVICES_LIKE
from polycast._grammar.names import DEFAULT
from polycast._text_table import lines_of
from polycast.policy.operators import castable, shown
from polycast.policy.rules import Rule

Value: TypeAlias = str | dict[str, str]
Entry: TypeAlias = Value | dict[str, Value]
Key: TypeAlias = tuple[str, str, str]
Cell = TypeVar("Cell")


def entries_of(rules: Iterable[Rule]) -> dict[str, Entry]:
    """Return the fewest entries from which a policy with these rules can be made."""
    cells: dict[Key, tuple[str, str]] = {rule.key: (rule.value, rule.note) for rule in rules}
    return {op: _entry(columns) for op, columns in _by_op(cells).items()}


def table_of(cells: Mapping[Key, tuple[str, ...]], *titles: str) -> str:
    """Return a table with a line for each op; devices with equal cells share a line. Empty columns are left out."""
    rows: list[tuple[str, ...]] = [("op", "device", *titles)]
    for op, columns in _by_op(cells).items():
        for cell in dict.fromkeys(columns.values()):
            held = [column for column in columns if columns[column] == cell]
            rows.append((op, "all" if len(held) == len(DEVICES_LIKE) else ", ".join(held), *cell))
    kept = [index for index in range(len(rows[0])) if any(row[index] for row in rows[1:])]
    return "\n".join(lines_of([tuple(row[index] for index in kept) for row in rows]))


def _by_op(cells: Mapping[Key, Cell]) -> dict[str, dict[str, Cell]]:
    """Return the cells of each op by column; those of each overload where they differ or one has none."""
    ops: dict[str, dict[str, dict[str, Cell]]] = {}
    for name, overload, column in cells:
        ops.setdefault(name, {}).setdefault(overload, {})[column] = cells[name, overload, column]
    found: dict[str, dict[str, Cell]] = {}
    for name, overloads in ops.items():
        first, *rest = overloads.values()
        known = {*castable(name)} or {DEFAULT}  # the torch that runs may lack an op that a release has
        if all(other == first for other in rest) and overloads.keys() == known:
            found[shown(name)] = first
        else:
            found |= {f"{shown(name)}.{overload}": columns for overload, columns in overloads.items()}
    return found


def _entry(columns: Mapping[str, tuple[str, str]]) -> Entry:
    """Return the entry of an op or overload. It leaves out a device that has the rule of the device that it is like."""
    values: dict[str, Value] = {
        column: {"as": columns[column][0], "note": columns[column][1]} if columns[column][1] else columns[column][0]
        for column in DEVICES_LIKE
        if column in columns
    }
    one = next(iter(values.values()))
    if values.keys() == DEVICES_LIKE.keys() and all(value == one for value in values.values()):
        return one
    return {column: value for column, value in values.items() if value != values.get(DEVICES_LIKE[column] or "")}
