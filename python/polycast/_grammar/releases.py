"""Recorded releases of torch: what each does to every op. The first of the file is whole, later ones hold changes.

Note [Absent]
An overload that a release does not have is not "unlisted" there. So the file says "absent" of an overload that is gone
since the release before, and names an overload under `new` that the release before did not have.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from .categories import UNLISTED, Category
from .errors import PolicyError, Problem
from .fields import Reader
from .names import split_overload
from .nodes import Mapping, Node, Text
from .versions import Version

ABSENT = "absent"
NAME = re.compile(r"torch-(\d{1,3})\.(\d{1,3})", re.ASCII)

_KEYS = ("recorded", "devices", "new", "ops", "reasons")
_VALUES = (*(category.value for category in Category), UNLISTED)

Overload = tuple[str, str]


@dataclass(frozen=True)
class Release:
    """What a release of torch does to every overload, on the devices that were recorded."""

    name: str
    packages: dict[str, str]
    devices: tuple[str, ...]
    rules: dict[tuple[str, str, str], str] = field(repr=False)
    absent: frozenset[Overload] = frozenset()
    reasons: dict[str, str] = field(default_factory=dict)  # of overloads, as in "pow.Scalar": why they changed here

    @property
    def number(self) -> Version:
        return number_of(self.name)

    def category(self, op: str, overload: str, device: str) -> str:
        """Return the category of an overload on a device, "unlisted", or "absent" if the release does not have it."""
        if (op, overload) in self.absent:
            return ABSENT
        return self.rules.get((op, overload, device), UNLISTED)

    def overloads(self) -> set[Overload]:
        """Return the overloads that any device lists, and those that are absent."""
        return {(op, overload) for op, overload, _ in self.rules} | self.absent


def number_of(name: str) -> Version:
    """Return the version in a name such as "torch-2.11"."""
    match = NAME.fullmatch(name)
    assert match is not None, name
    return int(match[1]), int(match[2])


def read_releases(path: Path) -> dict[str, Release]:
    """Return the releases of a file by their names, the oldest first.

    Raises:
        PolicyError: Every problem of the file.
    """
    from .files import load  # needs PyYAML

    problems: list[Problem] = []
    reader = _ReleaseReader(problems)
    root = load(path, path.name, problems, "torch-2.9")
    for name, node in reader.entries(root, "the file") if root is not None else ():
        if NAME.fullmatch(name.value):
            reader.release(name.value, node)
        else:
            reader.report(name.location, f"'{name.value}' is no release", "write it as in torch-2.12")
    if problems:
        raise PolicyError(problems)
    return reader.records


class _ReleaseReader(Reader):
    """Reads releases, the oldest first. Each begins with the result of the one before it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.records: dict[str, Release] = {}

    def release(self, name: str, node: Node) -> None:
        fields = self.fields(node, f"the record {name}", _KEYS, ("recorded", "devices"))
        if fields is None:
            return
        packages = {
            key.value: self.text(value, key.value) or "" for key, value in self.entries(fields["recorded"], "recorded")
        }
        devices = tuple(text.value for text in self.texts(fields["devices"], "devices"))
        before = next(reversed(self.records.values()), Release("", {}, (), {}))
        rules = {key: category for key, category in before.rules.items() if key[2] in devices}
        absent = set(before.absent)
        if "new" in fields:
            new = {split_overload(text.value) for text in self.texts(fields["new"], "new")}
            absent -= new
            for record in list(self.records.values()):
                self.records[record.name] = Release(**{**vars(record), "absent": record.absent | new})
        if "ops" in fields:
            self.ops(fields["ops"], devices, rules, absent)
        reasons = self.reasons(fields["reasons"]) if "reasons" in fields else {}
        self.records[name] = Release(name, packages, devices, rules, frozenset(absent), reasons)

    def ops(
        self, node: Node, devices: tuple[str, ...], rules: dict[tuple[str, str, str], str], absent: set[Overload]
    ) -> None:
        """Read the overloads of a release. Each replaces all categories that the release before gives it."""
        for key, value in self.entries(node, "ops"):
            op, overload = split_overload(key.value)
            for device in devices:
                rules.pop((op, overload, device), None)
            absent.discard((op, overload))
            if isinstance(value, Text) and value.value == ABSENT:
                absent.add((op, overload))
            elif isinstance(value, Mapping) or not (isinstance(value, Text) and value.value == UNLISTED):
                for name, category in self.entries(value, f"'{key.value}'"):
                    read = self.name(category, "category", _VALUES)
                    if read is not None and self.name(name, "device", devices) is not None:
                        rules[op, overload, name.value] = read

    def reasons(self, node: Node) -> dict[str, str]:
        texts = {
            key.value: self.text(value, f"the reason of '{key.value}'") for key, value in self.entries(node, "reasons")
        }
        return {op: " ".join(text.split()) for op, text in texts.items() if text is not None}
