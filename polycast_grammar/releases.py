"""What torch's releases do to each op: files of recorded rows, the first whole and each later one as changes.

Note [Absent]
A release that has no overload does not autocast it, and does not leave it alone either. So a file says "absent" of what
is gone since the release before it, and names under `new` what that one did not have yet.
"""

import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from pathlib import Path

from .categories import UNLISTED, Category
from .errors import PolicyError, Problem
from .fields import Reader
from .names import join_name, split_overload
from .nodes import Mapping, Node, Text
from .versions import Version

ABSENT = "absent"
NAME = re.compile(r"torch-(\d{1,3})\.(\d{1,3})", re.ASCII)

_KEYS = ("recorded", "after", "devices", "new", "ops", "reasons")
_VALUES = (*(category.value for category in Category), UNLISTED)

Overload = tuple[str, str]


@dataclass(frozen=True)
class Release:
    """What torch does in a release to every overload, on the devices that it was recorded for."""

    name: str
    packages: dict[str, str]
    devices: tuple[str, ...]
    rows: dict[tuple[str, str, str], str] = field(repr=False)
    absent: frozenset[Overload] = frozenset()
    reasons: dict[str, str] = field(default_factory=dict)  # of overloads, as in "pow.Scalar": why they changed here

    @property
    def number(self) -> Version:
        return number_of(self.name)

    def category(self, op: str, overload: str, device: str) -> str:
        """Return what an overload has on a device, "absent" where the release has none, else "unlisted"."""
        if (op, overload) in self.absent:
            return ABSENT
        return self.rows.get((op, overload, device), UNLISTED)

    def overloads(self) -> set[Overload]:
        """Return the overloads that any device lists, and those known to be absent."""
        return {(op, overload) for op, overload, _ in self.rows} | self.absent


@dataclass(frozen=True)
class Change:
    """An overload that releases treat differently on some devices: what it has, each with its first release."""

    op: str
    overload: str
    devices: tuple[str, ...]
    held: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...] = ()


def number_of(name: str) -> Version:
    """Return the release that a name such as "torch-2.11" is for."""
    match = NAME.fullmatch(name)
    assert match is not None, name
    return int(match[1]), int(match[2])


def read_releases(folder: Path) -> dict[str, Release]:
    """Return the records of a folder by their names, in the order of the releases.

    Raises:
        PolicyError: Every problem of the files.
    """
    from .files import load  # needs PyYAML

    problems: list[Problem] = []
    reader = _ReleaseReader(problems)
    for path in sorted(folder.glob("torch-*.yaml"), key=lambda path: number_of(path.stem)):
        root = load(path, path.name, problems)
        if root is not None:
            reader.file(path.stem, root)
    if problems:
        raise PolicyError(problems)
    return reader.records


def changes(history: MappingOf[str, Release]) -> list[Change]:
    """Return what differs between releases that recorded a device, devices that changed alike joined."""
    joined: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[str]] = {}
    records = list(history.values())
    devices = dict.fromkeys(device for record in records for device in record.devices)
    for op, overload in sorted(set().union(*(record.overloads() for record in records))):
        listed = {device for record in records for name, part, device in record.rows if (name, part) == (op, overload)}
        for device in (device for device in devices if device in listed):
            held = [(part.category(op, overload, device), part.name) for part in records if device in part.devices]
            spans = tuple(step for index, step in enumerate(held) if index == 0 or held[index - 1][0] != step[0])
            if len(spans) > 1:
                joined.setdefault((op, overload, spans), []).append(device)
    return [
        Change(op, overload, tuple(on), spans, tuple(_reasons(history, join_name(op, overload), spans[1:])))
        for (op, overload, spans), on in joined.items()
    ]


def _reasons(history: MappingOf[str, Release], name: str, spans: Iterable[tuple[str, str]]) -> Iterator[str]:
    for _, release in spans:
        if name in history[release].reasons:
            yield history[release].reasons[name]


class _ReleaseReader(Reader):
    """Reads files in the order of the releases; each begins with what the one before it comes to."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.records: dict[str, Release] = {}

    def file(self, name: str, root: Node) -> None:
        fields = self.fields(root, f"the record {name}", _KEYS, ("recorded", "devices"))
        if fields is None:
            return
        packages = {
            key.value: self.text(node, key.value) or "" for key, node in self.entries(fields["recorded"], "recorded")
        }
        devices = tuple(text.value for text in self.texts(fields["devices"], "devices"))
        rows: dict[tuple[str, str, str], str] = {}
        absent: set[Overload] = set()
        if "after" in fields:
            before = self.records.get(self.name(fields["after"], "record", self.records) or "")
            if before is None:
                return
            rows = {key: category for key, category in before.rows.items() if key[2] in devices}
            absent = set(before.absent)
        if "new" in fields:
            new = {split_overload(text.value) for text in self.texts(fields["new"], "new")}
            absent -= new
            for record in list(self.records.values()):
                self.records[record.name] = Release(**{**vars(record), "absent": record.absent | new})
        if "ops" in fields:
            self.ops(fields["ops"], devices, rows, absent)
        reasons = self.reasons(fields["reasons"]) if "reasons" in fields else {}
        self.records[name] = Release(name, packages, devices, rows, frozenset(absent), reasons)

    def ops(
        self, node: Node, devices: tuple[str, ...], rows: dict[tuple[str, str, str], str], absent: set[Overload]
    ) -> None:
        """Read the overloads of a file; each replaces all that the release before has for it."""
        for key, value in self.entries(node, "ops"):
            op, overload = split_overload(key.value)
            for device in devices:
                rows.pop((op, overload, device), None)
            absent.discard((op, overload))
            if isinstance(value, Text) and value.value == ABSENT:
                absent.add((op, overload))
            elif isinstance(value, Mapping) or not (isinstance(value, Text) and value.value == UNLISTED):
                for column, category in self.entries(value, f"'{key.value}'"):
                    read = self.name(category, "category", _VALUES)
                    if read is not None and self.name(column, "device", devices) is not None:
                        rows[op, overload, column.value] = read

    def reasons(self, node: Node) -> dict[str, str]:
        texts = {
            key.value: self.text(value, f"the reason of '{key.value}'") for key, value in self.entries(node, "reasons")
        }
        return {op: " ".join(text.split()) for op, text in texts.items() if text is not None}
