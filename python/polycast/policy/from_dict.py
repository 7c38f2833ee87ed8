"""The reader of rules: a dict, or the content of a file, becomes rows, or an error with every problem."""

from collections.abc import Mapping
from typing import Any

import torch

from polycast import devices
from polycast._extension import DEVICES_LIKE, obstacles
from polycast.policy import op_names
from polycast.policy.categories import UNLISTED, VALUES, canonical, not_a_category
from polycast.policy.errors import PolicyError, Problem
from polycast.policy.rows import EVERY, Cell, Row, Rows, overlaid
from polycast.policy.rules import shown

OTHERS = "others"
_WRITE = "write one, as in {softmax: fp32} or {softmax: {cuda: fp32}}"


def rows_of_dict(rules: object, file: str = "") -> Rows:
    """Return the rows of a dict, or of the content of a file.

    Args:
        rules: The dict, or the content.
        file: The name of the file; "" for a dict.

    Raises:
        PolicyError: If the rules have problems.
    """
    reader = _Reader(file)
    rows = reader.policy(rules)
    if reader.problems:
        raise PolicyError(reader.problems)
    return rows


class _Reader:
    """A reader, which collects problems. The reading methods omit the part that has a problem."""

    def __init__(self, file: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._source = file or "Policy"

    def report(self, path: str, what: str, remedy: str) -> None:
        self.problems.append(Problem(self._file, path, what, remedy))

    def policy(self, root: object) -> Rows:
        """Return the rows of a dict or a file, whose rules are under `ops` or at its top."""
        if isinstance(root, Mapping) and "models" in root:
            remedy = "for a file whose keys are names of modules, call polycast.assign(model, file)"
            self.report("models", "a policy has no rules of modules", remedy)
            return {}
        rules, before = root, ""
        if isinstance(root, Mapping) and "ops" in root:
            rules, before = root["ops"], "ops."
            for key in (key for key in root if key != "ops"):
                self.report(f"{key}", "unknown key next to 'ops'", "if it is an op, move it under 'ops'")
        if isinstance(rules, Mapping):
            return self.rows(rules, before)
        given = "nothing" if rules is None else f"a value of type {_kind(rules)}"
        self.report(before.rstrip("."), f"expected a mapping from ops to rules, got {given}", _WRITE)
        return {}

    def rows(self, rules: Mapping[Any, object], before: str) -> Rows:
        found: Rows = {}
        for key, value in rules.items():
            name = key if isinstance(key, str) else op_names.name_of(key)
            if name is None:
                what = f"expected the name of an op, or PyTorch's function or class that runs it, got {key!r:.60}"
                self.report(f"{before}<{_kind(key)}>", what, "write the name of an op, such as 'conv2d'")
                continue
            path = before + (name or "''")
            casts, named = self.by_device(value, path), [*value] if isinstance(value, Mapping) else []
            for target, row in self.castable(self.targets(name, path), casts, named):
                found[target] = self.joined(found.get(target), row, target, path)
        return found

    def by_device(self, value: object, path: str) -> list[Cell | None]:
        """Return the cells of the devices."""
        if not isinstance(value, Mapping):
            return [self.cast(value, path)] * len(DEVICES_LIKE)
        named: dict[str, Cell | None] = {}
        for key, part in value.items():
            device = self.device(key, path)
            cast = self.cast(part, f"{path}.{device or key}")
            if device is not None:
                named[device] = cast
        if not value:
            self.report(path, "expected a mapping from devices to categories, got an empty one", _WRITE)
        others = named.get(OTHERS)
        # With `others: unlisted` devices that are like a named one have no rule either.
        all_unlisted = others is not None and others.category == UNLISTED
        found = []
        for device in DEVICES_LIKE:
            link: str | None = device
            while link is not None and link not in named and not all_unlisted:
                link = DEVICES_LIKE[link]
            found.append(named.get(link or OTHERS, others))
        return found

    def cast(self, value: object, path: str) -> Cell | None:
        """Return the cell of a category or a dtype; None if the value is neither."""
        text = str(value) if isinstance(value, torch.dtype) else value
        if not isinstance(text, str):
            self.report(path, f"expected a category or a dtype, got a value of type {_kind(value)}", _WRITE)
            return None
        category = canonical(text)
        if category in VALUES:
            return Cell(category, f"{self._source}: {path}")
        self.report(path, *not_a_category(text))
        return None

    def device(self, key: object, path: str) -> str | None:
        name = key.type if isinstance(key, torch.device) else key
        if not isinstance(name, str):
            what = f"expected the name of a device, got {key!r:.60}"
            self.report(f"{path}.<{_kind(key)}>", what, "write the name of a device, such as cuda")
            return None
        if name == OTHERS or (name in DEVICES_LIKE and name is key):
            return name
        if name in devices.device_types():
            return devices.device_of(name)
        self.report(f"{path}.{name}", f"unknown device '{name}'", f"use one of {', '.join(DEVICES_LIKE)}, {OTHERS}")
        return None

    def targets(self, name: str, path: str) -> tuple[str, ...]:
        """Return the keys of the ops that a name means, and report an unknown name."""
        found = (EVERY,) if name == EVERY else op_names.keys_of(name)
        if not found:
            self.report(path, *op_names.unknown(name))
        return found

    def castable(self, targets: tuple[str, ...], row: list[Cell | None], named: list[Any]) -> list[tuple[str, Row]]:
        """Return the row of each target without the cells that none of its overloads can have.

        It is a problem if a category fits no target, either on all devices or on a device that the value names.
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
        """Return both rows of an op as one, and report where they disagree."""
        if earlier is None:
            return row
        reported: set[str] = set()
        for device, one, other in zip(DEVICES_LIKE, earlier, row, strict=True):
            if one and other and one.category != other.category and one.source not in reported:
                reported.add(one.source)
                what = f"gives '{shown(key)}' {other.category} on {device}, but {one.source} gives it {one.category}"
                also = "" if "." in key else ", or name an overload in the rule that is to override the other"
                self.report(path, what, f"remove one of the two rules{also}")
        return overlaid(row, earlier)


def _kind(value: object) -> str:
    return type(value).__name__
