"""Rules as a dict or a file has them, and as tables: one line for an op whose overloads all have the same."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

from polycast._compiled import DEVICES_LIKE
from polycast._grammar.names import DEFAULT
from polycast._text_table import lines_of
from polycast.policy.operators import castable, signatures
from polycast.policy.rules import Rule

Value: TypeAlias = str | dict[str, str]
Casts: TypeAlias = Value | dict[str, Value]  # what a dict has for an op
Key: TypeAlias = tuple[str, str, str]
Cell = TypeVar("Cell")
TITLES = ("category", "from")


class Rules(tuple[Rule, ...]):
    """Rules that print as a table."""

    def __str__(self) -> str:
        """Return a table of the rules, each with the place that it comes from."""
        return table_of(self.cells(), *TITLES)

    def cells(self) -> dict[Key, tuple[str, str]]:
        """Return what the table says of each rule."""
        return {rule.key: (rule.category, f"{rule.source}: {rule.note}" if rule.note else rule.source) for rule in self}


def write(content: Mapping[str, object], path: str | os.PathLike[str]) -> None:
    """Write rules to a YAML file."""
    import yaml

    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    Path(path).write_text(text, encoding="utf-8")


def casts_of(rules: Iterable[Rule]) -> dict[str, Casts]:
    """Return the shortest dict from which a policy with these rules can be made."""
    cells: dict[Key, tuple[str, str]] = {rule.key: (rule.category, rule.note) for rule in rules}
    return {op: _casts(devices) for op, devices in _by_op(cells).items()}


def table_of(cells: Mapping[Key, tuple[str, ...]], *titles: str) -> str:
    """Return a table with a line for each op; devices with equal cells share a line. Empty columns are left out."""
    lines: list[tuple[str, ...]] = [("op", "device", *titles)]
    for op, devices in _by_op(cells).items():
        for cell in dict.fromkeys(devices.values()):
            held = [device for device in devices if devices[device] == cell]
            lines.append((op, "all" if len(held) == len(DEVICES_LIKE) else ", ".join(held), *cell))
    kept = [index for index in range(len(lines[0])) if any(line[index] for line in lines[1:])]
    return "\n".join(lines_of([tuple(line[index] for index in kept) for line in lines])) if kept else ""


def _by_op(cells: Mapping[Key, Cell]) -> dict[str, dict[str, Cell]]:
    """Return the cells of each op by device; those of each overload where they differ or one has none."""
    ops: dict[str, dict[str, dict[str, Cell]]] = {}
    for op, overload, device in cells:
        ops.setdefault(op, {}).setdefault(overload, {})[device] = cells[op, overload, device]
    found: dict[str, dict[str, Cell]] = {}
    for op, overloads in ops.items():
        first, *rest = overloads.values()
        known = {*castable(signatures(op))} or {DEFAULT}  # the torch that runs may lack an op that a release has
        if all(other == first for other in rest) and overloads.keys() == known:
            found[op] = first
        else:
            found |= {f"{op}.{overload}": devices for overload, devices in overloads.items()}
    return found


def _casts(cells: Mapping[str, tuple[str, str]]) -> Casts:
    """Return what a dict has for an op. It leaves out a device that has the rule of the device that it is like."""
    values: dict[str, Value] = {
        device: {"as": cells[device][0], "note": cells[device][1]} if cells[device][1] else cells[device][0]
        for device in DEVICES_LIKE
        if device in cells
    }
    one = next(iter(values.values()))
    if values.keys() == DEVICES_LIKE.keys() and all(value == one for value in values.values()):
        return one
    return {device: value for device, value in values.items() if value != values.get(DEVICES_LIKE[device] or "")}
