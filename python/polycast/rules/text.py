"""Rows as rules again, in as few words as give the same rows."""

from collections.abc import Iterable, Mapping

from polycast._compiled import DEVICES_LIKE
from polycast.grammar.categories import Category
from polycast.rules.operators import Target, castable, obstacle, shown
from polycast.rules.rows import PatchRow

Value = str | dict[str, str]


def rules_of(rows: Iterable[PatchRow]) -> dict[str, Value | dict[str, Value]]:
    """Return the rules that give these rows: one for an op where that gives the rows of all its overloads."""
    ops: dict[str, dict[str, dict[str, PatchRow]]] = {}
    for row in rows:
        ops.setdefault(row.name, {}).setdefault(row.overload, {})[row.column] = row
    rules: dict[str, Value | dict[str, Value]] = {}
    for name, overloads in ops.items():
        devices = {overload: _devices(columns) for overload, columns in overloads.items()}
        first = next(iter(devices))
        categories = {row.category for row in overloads[first].values()}
        if all(part == devices[first] for part in devices.values()) and all(
            devices.keys() == _covered(name, Category(category)) for category in categories
        ):
            rules[shown(name)] = devices[first]
        else:
            rules |= {shown(name, overload): part for overload, part in devices.items()}
    return rules


def _covered(name: str, category: Category) -> set[str]:
    """Return the overloads that a rule for the op gives this category."""
    return {key for key, part in castable(name).items() if obstacle(Target(name, key), part, category) is None}


def _devices(rows: Mapping[str, PatchRow]) -> Value | dict[str, Value]:
    values: dict[str, Value] = {
        column: {"as": rows[column].value, "note": rows[column].note} if rows[column].note else rows[column].value
        for column in DEVICES_LIKE
        if column in rows
    }
    one = next(iter(values.values()))
    if values.keys() == DEVICES_LIKE.keys() and all(value == one for value in values.values()):
        return one
    return {column: value for column, value in values.items() if value != values.get(DEVICES_LIKE[column] or "")}
