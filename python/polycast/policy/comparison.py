"""Two policies, releases or devices side by side: what they do differently, and why."""

import os
from collections.abc import Iterable
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import NamedTuple

import torch

from polycast import backends
from polycast._compiled import DEVICES, ROWS
from polycast._suggest import suggestion
from polycast._text_table import lines_of
from polycast.policy.operators import ATEN, shown, signatures
from polycast.policy.policy import Policy
from polycast.policy.records import find, history, is_release
from polycast_grammar.categories import UNLISTED
from polycast_grammar.history import ABSENT, Record, number_of

BASE = "base"
_RUNNING = f"torch-{'.'.join(torch.__version__.split('.')[:2])}"
_ABSENT = f"{ABSENT}: that torch has no such op or overload."
_UNLISTED = f"{UNLISTED}: runs in the type of its inputs; ops that it runs follow their own rules."
_FALLTHROUGH = "fallthrough: runs in the type of its inputs, and so does all that it runs."

Key = tuple[str, str, str]


class Side(NamedTuple):
    """What is compared: what it gives each overload on each of its columns, and why where it says so."""

    title: str
    columns: tuple[str, ...]
    cells: dict[Key, str]
    reasons: dict[Key, str]
    record: Record | None = None

    def category(self, key: Key) -> str:
        name, overload, column = key
        if self.record is not None and name.startswith(ATEN):
            return self.record.category(name.removeprefix(ATEN), overload, column)
        return self.cells.get(key) or (UNLISTED if overload in signatures(name) else ABSENT)


def diff(one: str, other: str, device: str | None = None) -> str:
    """Return a table of what two sides do differently, with the reasons that are known.

    Args:
        one: "base" for the policy that is compiled in, the name of a recorded release ("torch-2.11"), a file with
            rules over the base, or a device.
        other: As `one`; a device beside a device.
        device: The device to look at alone; None for all that both sides know.

    Raises:
        ValueError: There is no such side or device, or a file has problems.

    Example:
        >>> from polycast.policy.comparison import diff
        >>> print(diff("torch-2.13", "torch-2.14", "cuda").partition(chr(10) * 2)[0])
        op                   device  torch-2.13  torch-2.14  why
        linalg_matrix_sqrth  cuda    absent      fp32        [1]
    """
    columns = [_column(name) for name in (one, other)]
    if None not in columns:
        if device is not None:
            raise ValueError(f"'{one}' and '{other}' are devices already; leave out --device")
        return _between_devices(str(columns[0]), str(columns[1]))
    if set(columns) != {None}:
        name, rest = (one, other) if columns[0] else (other, one)
        raise ValueError(f"'{name}' is a device and '{rest}' is none; compare two devices, or '{rest}' with --device")
    sides = [_side(name) for name in (one, other)]
    return _between(sides[0], sides[1], None if device is None else _wanted(device, sides))


def _column(name: str) -> str | None:
    """Return the column of the policy that a device's name is for; None for what names none."""
    if name in DEVICES:
        return name
    return backends.column(name) if name in backends.types() else None


def _wanted(device: str, sides: Iterable[Side]) -> str:
    column = _column(device)
    if column is None:
        there_are = f"; there are {', '.join(DEVICES)}"
        raise ValueError(f"the policy has no device '{device}'{suggestion(device, DEVICES) or there_are}")
    for side in sides:
        if column not in side.columns:
            raise ValueError(f"{side.title} has no record of {column}; it has {', '.join(side.columns)}")
    return column


def _side(name: str) -> Side:
    base: dict[Key, str] = {(ATEN + row.op, row.overload, row.device): row.category for row in ROWS}
    notes: dict[Key, str] = {(ATEN + row.op, row.overload, row.device): row.note for row in ROWS if row.note}
    if name == BASE:
        return Side(name, tuple(DEVICES), base, notes)
    if is_release(name):
        record = find(name)
        cells = {(ATEN + op, overload, column): held for (op, overload, column), held in record.rows.items()}
        return Side(name, record.devices, cells, {}, record)
    if not (name.endswith((".yaml", ".yml")) or os.sep in name or Path(name).exists()):
        close = suggestion(name, (BASE, *history(), *DEVICES)) or "; those of rules end in .yaml"
        raise ValueError(f"'{name}' is neither {BASE}, a release, a device nor a file{close}")
    rows = Policy.load(name).rows()
    cells = base | {row.key: row.value for row in rows}
    return Side(name, tuple(DEVICES), cells, notes | {row.key: row.note for row in rows})


def _between(one: Side, other: Side, device: str | None) -> str:
    columns = [column for column in DEVICES if column in one.columns and column in other.columns]
    columns = columns if device is None else [device]
    listed = {key[:2] for side in (one, other) for key in side.cells}
    for side in (one, other):
        if side.record is not None:
            listed |= {(ATEN + op, overload) for op, overload in side.record.absent}
    lines: dict[tuple[str, ...], list[str]] = {}
    for name, overload in sorted(listed):
        for column in columns:
            key = (name, overload, column)
            cells = (one.category(key), other.category(key))
            if cells[0] != cells[1] and not _missing(cells):
                line = (shown(name, overload), *cells, _reason(one, other, key))
                lines.setdefault(line, []).append(column)
    apart = [] if device else [column for column in DEVICES if (column in one.columns) != (column in other.columns)]
    unknown = f"Not compared, as one has no record of it: {', '.join(apart)}." if apart else ""
    return "\n".join(filter(None, (_table(lines, (one.title, other.title)), unknown)))


def _missing(cells: tuple[str, str]) -> bool:
    """Whether one side has no such overload and the other does not list it: nobody casts it."""
    return ABSENT in cells and UNLISTED in cells


def _reason(one: Side, other: Side, key: Key) -> str:
    """Return what the sides say of a row, and what the releases between them say of its op."""
    name = shown(*key[:2])
    numbers = [number_of(side.record.name if side.record else _RUNNING) for side in (one, other)]
    said = [side.reasons.get(key, "") for side in (one, other)]
    parts = [part for part in history().values() if min(numbers) < part.number <= max(numbers)]
    said += [part.reasons[name] for part in parts if name in part.reasons]
    return " ".join(dict.fromkeys(filter(None, said)))


def _between_devices(one: str, other: str) -> str:
    by_column: dict[str, dict[tuple[str, str], tuple[str, str]]] = {one: {}, other: {}}
    for row in ROWS:
        if row.device in by_column:
            by_column[row.device][ATEN + row.op, row.overload] = (row.category, row.note)
    lines: dict[tuple[str, ...], list[str]] = {}
    for name, overload in sorted({*by_column[one], *by_column[other]}):
        (first, note), (second, note2) = (
            by_column[column].get((name, overload), (UNLISTED, "")) for column in (one, other)
        )
        if first != second:
            lines[shown(name, overload), first, second, " ".join(dict.fromkeys(filter(None, (note, note2))))] = []
    return _table(lines, (one, other))


def _table(lines: dict[tuple[str, ...], list[str]], titles: tuple[str, str]) -> str:
    """Return the lines as a table, and the reasons below it; a column of devices stands where there are any."""
    if not lines:
        return f"{titles[0]} and {titles[1]} do the same."
    numbers = {reason: f"[{number}]" for number, reason in enumerate(_reasons(lines), start=1)}
    head: tuple[str, ...] = ("op", "device", *titles, "why")
    rows = [
        (op, "all" if on == list(DEVICES) else ", ".join(on), one, other, numbers.get(reason, ""))
        for (op, one, other, reason), on in lines.items()
    ]
    kept = [index for index in range(len(head)) if any(row[index] for row in rows)]
    table = lines_of([tuple(row[index] for index in kept) for row in (head, *rows)])
    notes = [
        text for text in (_UNLISTED, _FALLTHROUGH, _ABSENT) if any(text.partition(":")[0] in row[2:4] for row in rows)
    ]
    notes += [f"{number} {reason}" for reason, number in numbers.items()]
    return "\n".join([*table, "", *map(_filled, notes)]).rstrip("\n")


def _reasons(lines: Iterable[tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys(reason for *_, reason in lines if reason))


def _filled(text: str) -> str:
    return fill(text, width=min(100, get_terminal_size((100, 0)).columns), break_on_hyphens=False)
