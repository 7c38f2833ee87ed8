"""Policies, releases and devices side by side: a table of what they do differently, and why."""

from collections.abc import Iterable
from shutil import get_terminal_size
from textwrap import fill
from typing import NamedTuple

import torch

from polycast._compiled import DEVICES, ROWS
from polycast._grammar.categories import UNLISTED, Category
from polycast._grammar.releases import ABSENT, Release, number_of
from polycast.policy.operators import ATEN, shown, signatures
from polycast.policy.releases import releases
from polycast.policy.rules import Rule
from polycast.policy.writing import Key, table_of

_RUNNING = number_of(f"torch-{'.'.join(torch.__version__.split('.')[:2])}")
_NOTES = {
    UNLISTED: f"{UNLISTED}: runs in the type of its inputs; ops that it runs follow their own rules.",
    Category.FALLTHROUGH.value: "fallthrough: runs in the type of its inputs, and so does all that it runs.",
    ABSENT: f"{ABSENT}: that torch has no such op or overload.",
}


class Side(NamedTuple):
    """What is compared: the category of each overload that it lists on each device, and the reasons that it gives."""

    title: str
    columns: tuple[str, ...]
    categories: dict[Key, str]
    reasons: dict[Key, str]
    release: Release | None = None

    def category(self, key: Key) -> str:
        name, overload, column = key
        if self.release is not None and name.startswith(ATEN):
            return self.release.category(name.removeprefix(ATEN), overload, column)
        return self.categories.get(key) or (UNLISTED if overload in signatures(name) else ABSENT)

    def overloads(self) -> set[tuple[str, str]]:
        """Return the overloads that it lists, and those that its torch is known to lack."""
        absent = self.release.absent if self.release is not None else frozenset()
        return {key[:2] for key in self.categories} | {(ATEN + op, overload) for op, overload in absent}

    @property
    def version(self) -> tuple[int, int]:
        """The torch that it is of."""
        return _RUNNING if self.release is None else self.release.number


def side_of(title: str, rules: Iterable[Rule] = ()) -> Side:
    """Return the side of rules over policy.yaml."""
    categories: dict[Key, str] = {(ATEN + row.op, row.overload, row.device): row.category for row in ROWS}
    reasons: dict[Key, str] = {(ATEN + row.op, row.overload, row.device): row.note for row in ROWS if row.note}
    for rule in rules:
        categories[rule.key], reasons[rule.key] = rule.value, rule.note
    return Side(title, tuple(DEVICES), categories, reasons)


def side_of_release(release: Release) -> Side:
    """Return the side of a release as it was recorded, which may have ops that the torch that runs lacks."""
    categories: dict[Key, str] = {
        (ATEN + op, overload, column): held for (op, overload, column), held in release.rows.items()
    }
    return Side(release.name, release.devices, categories, {}, release)


def side_of_device(column: str) -> Side:
    """Return the side of a device, to be compared with another device."""
    rows = [row for row in ROWS if row.device == column]
    categories: dict[Key, str] = {(ATEN + row.op, row.overload, ""): row.category for row in rows}
    return Side(column, ("",), categories, {(ATEN + row.op, row.overload, ""): row.note for row in rows})


def differences(*sides: Side, device: str | None = None) -> str:
    """Return a table of what the last two sides do differently, with the reasons that are known; empty if nothing."""
    shared = [column for column in sides[-1].columns if column in sides[-2].columns]
    shared = [*filter(shared.__contains__, DEVICES), *filter("".__eq__, shared)] if device is None else [device]
    cells: dict[Key, tuple[str, ...]] = {}
    numbers: dict[str, str] = {"": ""}
    for name, overload in sorted(sides[-1].overloads() | sides[-2].overloads()):
        for column in shared:
            key = (name, overload, column)
            held = tuple(side.category(key) for side in sides)
            # Nobody casts what one side does not have and the other does not list.
            if held[-1] != held[-2] and {*held[-2:]} != {ABSENT, UNLISTED}:
                reason = _reason(sides[-2], sides[-1], key)
                cells[key] = (*held, numbers.setdefault(reason, f"[{len(numbers)}]"))
    if not cells:
        return ""
    found = {category for cell in cells.values() for category in cell}
    notes = [text for category, text in _NOTES.items() if category in found]
    notes += [f"{number} {reason}" for reason, number in numbers.items() if reason]
    table = table_of(cells, *(side.title for side in sides), "why")
    return "\n".join([table, "", *map(_filled, notes)]).rstrip("\n")


def _reason(one: Side, other: Side, key: Key) -> str:
    """Return what the sides say of an overload, and what the releases between them say."""
    name, (first, last) = shown(*key[:2]), sorted((one.version, other.version))
    said = [side.reasons.get(key, "") for side in (one, other)]
    if first != last:
        between = [release for release in releases().values() if first < release.number <= last]
        said += [release.reasons.get(name, "") for release in between]
    return " ".join(dict.fromkeys(filter(None, said)))


def _filled(text: str) -> str:
    return fill(text, width=min(100, get_terminal_size((100, 0)).columns), break_on_hyphens=False)
