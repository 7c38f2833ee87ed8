"""A reader of rules, which turns a dict, a file, a release, a category or a dtype into the rows of a policy."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import torch

from polycast import devices
from polycast._dtypes import NAMES
from polycast._extension import DEVICES_LIKE, obstacles
from polycast._suggest import suggestion
from polycast.policy import op_names
from polycast.policy.categories import STOCK, UNLISTED, VALUES, canonical, not_a_category
from polycast.policy.errors import PolicyError, Problem
from polycast.policy.releases import find, releases, rows_of
from polycast.policy.rules import EVERY, Cell, Row, Rows, overlaid, shown

OTHERS = "others"
_WRITE = "write one, as in {'softmax': 'fp32'} or {'softmax': {'cuda': 'fp32'}}"


def is_file(value: object) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether a value is the path of a policy file, which need not exist."""
    if isinstance(value, str) and canonical(value) not in VALUES and find(value) is None:
        return value.endswith((".yaml", ".yml")) or os.sep in value or Path(value[:255]).is_file()
    return isinstance(value, os.PathLike)


def rows_from(value: object) -> Rows:
    """Return the rows of rules in any form except a policy.

    Raises:
        PolicyError: If a dict or a file has problems.
        ValueError: If a str is not a category, a dtype, a release or a file, or no rule casts to the given dtype.
        TypeError: If the value has the wrong type.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return _Reader().read(value)
    if is_file(value):
        from polycast.policy.files import load  # only files need PyYAML

        return _Reader(os.fspath(value)).read(load(value))
    if not isinstance(value, str | torch.dtype):
        raise TypeError(
            f"rules: expected a mapping, a file, a release, a category or a dtype, got {value!r:.60}; "
            "write rules as in {'softmax': 'fp32'}"
        )
    text = str(value)
    category = canonical(text)
    if category in VALUES:
        return {EVERY: (Cell(category, f"Policy('{category}')"),) * len(DEVICES_LIKE)}
    if text == STOCK or isinstance(value, torch.dtype):
        raise ValueError("rules: " + "; ".join(not_a_category(text)))
    if (release := find(text)) is not None:
        return rows_of(release)
    close = suggestion(text, [*VALUES, *NAMES, *releases()])
    remedy = close or "; write a category such as 'fp32', a release such as 'torch-2.12', or the name of a file"
    raise ValueError(f"rules: expected a category, a dtype, a release or a file, got '{text:.60}'{remedy}")


class _Reader:
    """A reader that collects problems. Its methods omit each part that has a problem."""

    def __init__(self, file: str = "") -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._source = file or "Policy"

    def report(self, path: str, what: str, remedy: str) -> None:
        self.problems.append(Problem(self._file, path, what, remedy))

    def read(self, root: object) -> Rows:
        """Return the rows of the rules, which are under ``ops`` or at the top level, or raise all their problems."""
        rules, before, rows = root, "", Rows()
        if isinstance(root, Mapping) and "ops" in root:
            rules, before = root["ops"], "ops."
            for key in (key for key in root if key != "ops"):
                self.report(f"{key}", f"expected only the key 'ops', got '{key}'", "remove it, or move it to 'ops'")
        if isinstance(rules, Mapping):
            rows = self.rows(rules, before)
        else:
            given = "nothing" if rules is None else f"a value of type {_kind(rules)}"
            self.report(before.rstrip("."), f"expected a mapping from ops to rules, got {given}", _WRITE)
        if self.problems:
            raise PolicyError(self.problems)
        return rows

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
            targets: tuple[str, ...] = (EVERY,) if name == EVERY else op_names.keys_of(name)
            if not targets:
                self.report(path, *op_names.unknown(name))
            for target, row in self.castable(targets, casts, named) if targets else ():
                found[target] = self.joined(found.get(target), row, target, path)
        return found

    def by_device(self, value: object, path: str) -> list[Cell | None]:
        """Return the cell of each device, from a category, a dtype or a mapping from devices."""
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
        # `others: unlisted` cancels `like` for every device without a key.
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
        if isinstance(key, str) and key in (*DEVICES_LIKE, OTHERS):
            return key
        name = key.type if isinstance(key, torch.device) else key
        if name in devices.device_types():
            return devices.device_of(str(name))
        known = ", ".join([*DEVICES_LIKE, OTHERS])
        self.report(f"{path}.{key}", f"expected a device, got '{key!s:.60}'", f"use one of {known}")
        return None

    def castable(self, targets: tuple[str, ...], row: list[Cell | None], named: list[Any]) -> list[tuple[str, Row]]:
        """Return the row of each target without the cells that no overload of the target can have.

        Report a category that fits no target, either on all devices or on a device that is a key of the value.
        """
        reasons = [_reasons(key, row) for key in targets]
        spots = list(zip(DEVICES_LIKE, row, zip(*reasons, strict=True), strict=True))
        done = {cell.source for _, cell, why in spots if cell and not all(why)}
        for device, cell, why in spots:
            if cell and all(why) and (device in named or cell.source not in done):
                done.add(cell.source)
                path, (reason, _, remedy) = cell.source.removeprefix(f"{self._source}: "), why[0].partition("; ")
                self.report(path, f"'{shown(targets[0])}' cannot have {cell.category}: it {reason}", remedy)
        return [(key, cells) for key in targets if any(cells := _fitting(key, row))]

    def joined(self, earlier: Row | None, row: Row, key: str, path: str) -> Row:
        """Merge two rows of an op, and report the devices on which they disagree."""
        if earlier is None:
            return row
        reported: set[str] = set()
        for device, one, other in zip(DEVICES_LIKE, earlier, row, strict=True):
            if one and other and one.category != other.category and one.source not in reported:
                reported.add(one.source)
                what = f"this key sets '{shown(key)}' to {other.category} on {device}, but the key "
                what += f"'{one.source.removeprefix(f'{self._source}: ')}' sets it to {one.category}"
                also = "" if "." in key else ", or name an overload in one of them"
                self.report(path, what, f"remove one of the two rules{also}")
        return overlaid(row, earlier)


def _reasons(key: str, row: Sequence[Cell | None]) -> list[str]:
    """Return, for each cell, the reason why no overload of the key can have its category, or ""."""
    return [""] * len(row) if key == EVERY else obstacles(key, [cell and cell.category for cell in row])


def _fitting(key: str, row: Sequence[Cell | None]) -> Row:
    """Return a row without the cells that no overload of the key can have. Such devices inherit from their ``like``."""
    cells: dict[str, Cell | None] = {}
    for device, cell, reason in zip(DEVICES_LIKE, row, _reasons(key, row), strict=True):
        cells[device] = cells.get(DEVICES_LIKE[device] or "") if reason else cell
    reasons = _reasons(key, [*cells.values()])
    return tuple(None if reason else cell for cell, reason in zip(cells.values(), reasons, strict=True))


def _kind(value: object) -> str:
    return type(value).__name__
