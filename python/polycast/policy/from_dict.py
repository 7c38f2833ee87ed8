"""Reads dicts of rules as rows, and reports every problem."""

from collections.abc import Mapping
from typing import Any

import torch

from polycast import devices
from polycast._extension import DEVICES_LIKE, obstacles
from polycast._suggest import did_you_mean
from polycast.policy import op_names
from polycast.policy.categories import UNLISTED, VALUES, canonical, not_a_category
from polycast.policy.errors import PolicyError, Problem
from polycast.policy.rows import EVERY, Cell, Row, Rows, shortened
from polycast.policy.rules import shown

OTHERS = "others"
_GIVE = "give it a category, or a mapping of devices to categories"


def rows_of_dict(rules: object, file: str = "") -> Rows:
    """Return the rows of a dict, or of the content of a file.

    Raises:
        PolicyError: It has problems.
    """
    reader = _Reader(file)
    rows = reader.policy(rules)
    if reader.problems:
        raise PolicyError(reader.problems)
    return shortened(rows)


class _Reader:
    """Reads rules. A rule for an overload decides over a rule for its op."""

    def __init__(self, file: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._source = file or "Policy"

    def report(self, path: str, what: str, remedy: str) -> None:
        self.problems.append(Problem(self._file, path, what, remedy))

    def policy(self, root: object) -> Rows:
        """Return the rows of a dict or a file, whose rules are under `ops` or at its top."""
        if not isinstance(root, Mapping):
            self.report("", "the file is empty" if root is None else "not a mapping", "give it the key ops")
            return {}
        if "models" in root:
            remedy = "polycast.assign(model, file) takes a file whose keys are the names of modules"
            self.report("models", "'models' is no op, and a policy holds no rules for modules", remedy)
            return {}
        if "ops" not in root:
            return self.rows(root, "")
        for key in (key for key in root if key != "ops"):
            self.report(f"{key}", "unknown key next to 'ops'", "put it under 'ops' if it is an op")
        if isinstance(root["ops"], Mapping):
            return self.rows(root["ops"], "ops.")
        self.report("ops", "not a mapping", "give it one, as in {softmax: fp32}")
        return {}

    def rows(self, rules: Mapping[Any, object], before: str) -> Rows:
        found: Rows = {}
        for key, value in rules.items():
            name = key if isinstance(key, str) else op_names.name_of(key)
            if name is None:
                remedy = "use the name of an op, or torch's function or class that runs it"
                self.report(f"{before}<{_kind(key)}>", f"a key of type {_kind(key)}", remedy)
                continue
            path = before + (name or "''")
            casts, named = self.by_device(value, path), [*value] if isinstance(value, Mapping) else []
            for target, row in self.castable(self.targets(name, path), casts, named):
                found[target] = self.joined(found.get(target), row, target, path)
        return found

    def by_device(self, value: object, path: str) -> list[Cell | None]:
        """Return the cast of each device."""
        if not isinstance(value, Mapping):
            return [self.cast(value, path)] * len(DEVICES_LIKE)
        named: dict[str, Cell | None] = {}
        for key, part in value.items():
            device = self.device(key, path)
            cast = self.cast(part, f"{path}.{device or key}")
            if device is not None:
                named[device] = cast
        if not value:
            self.report(path, "an empty mapping", _GIVE)
        others = named.get(OTHERS)
        # `others: unlisted` keeps an op from the devices that are like a named one.
        all_unlisted = others is not None and others.category == UNLISTED
        found = []
        for device in DEVICES_LIKE:
            link: str | None = device
            while link is not None and link not in named and not all_unlisted:
                link = DEVICES_LIKE[link]
            found.append(named.get(link or OTHERS, others))
        return found

    def cast(self, value: object, path: str) -> Cell | None:
        """Return the cast of a category or a dtype; None if it is neither."""
        text = str(value) if isinstance(value, torch.dtype) else value
        if not isinstance(text, str):
            self.report(path, f"a value of type {_kind(value)}", _GIVE)
            return None
        category = canonical(text)
        if category in VALUES:
            return Cell(category, f"{self._source}: {path}")
        self.report(path, *not_a_category(text))
        return None

    def device(self, key: object, path: str) -> str | None:
        name = key.type if isinstance(key, torch.device) else key
        if not isinstance(name, str):
            self.report(f"{path}.<{_kind(key)}>", f"a key of type {_kind(key)}", "use the name of a device")
            return None
        if name == OTHERS or (name in DEVICES_LIKE and name is key):
            return name
        if name in devices.device_types():
            return devices.device_of(name)
        self.report(f"{path}.{name}", f"unknown device '{name}'", f"use one of {', '.join(DEVICES_LIKE)}, {OTHERS}")
        return None

    def targets(self, name: str, path: str) -> tuple[str, ...]:
        """Return the keys of the ops that a name means, and report an unknown one."""
        found = (EVERY,) if name == EVERY else op_names.keys_of(name)
        if not found:
            self.report(path, *op_names.unknown(name))
        for key in (key for key in found if "." in key):
            op, overload = key.split(".")
            if overload not in (names := op_names.overload_names(key)):
                what = f"'{shown(op)}' has no overload '{overload}'"
                self.report(path, what, did_you_mean(overload, names))
                found = ()
        return found

    def castable(self, targets: tuple[str, ...], row: list[Cell | None], named: list[Any]) -> list[tuple[str, Row]]:
        """Return the row of each target without the cells that none of its overloads can have.

        It is a problem if no target can have a category, on any device or on one that the value names.
        """
        rows: list[tuple[str, Row]] = []
        reached: set[tuple[str, str]] = set()  # a source and a device
        refused: dict[tuple[str, str], tuple[str, str, str]] = {}
        for key in targets:
            reasons = [""] * len(row) if key == EVERY else obstacles(key, [cell and cell.category for cell in row])
            for device, cell, reason in zip(DEVICES_LIKE, row, reasons, strict=True):
                if cell is not None and reason:
                    refused.setdefault((cell.source, device), (shown(key), cell.category, reason))
                elif cell is not None:
                    reached.add((cell.source, device))
            cells = [None if reason else cell for cell, reason in zip(row, reasons, strict=True)]
            rows += [(key, tuple(cells))] if any(cells) else []
        sources = {source for source, _ in reached}
        missed = {
            source: why
            for (source, device), why in reversed(refused.items())
            if source not in sources or (device in named and (source, device) not in reached)
        }
        for source, (name, category, reason) in reversed(missed.items()):
            what, _, remedy = reason.partition("; ")
            self.report(source.removeprefix(f"{self._source}: "), f"'{name}' cannot have {category}: it {what}", remedy)
        return rows

    def joined(self, earlier: Row | None, row: Row, key: str, path: str) -> Row:
        """Return both rows of an op. It is a problem if they disagree."""
        if earlier is None:
            return row
        told: set[str] = set()
        for device, one, other in zip(DEVICES_LIKE, earlier, row, strict=True):
            if one and other and one.category != other.category and one.source not in told:
                told.add(one.source)
                what = f"gives '{shown(key)}' {other.category} on {device}, and {one.source} gives it {one.category}"
                also = "" if "." in key else ", or name an overload in the one that is to decide"
                self.report(path, what, f"keep one of them{also}")
        return tuple(one or other for one, other in zip(earlier, row, strict=True))


def _kind(value: object) -> str:
    return type(value).__name__
