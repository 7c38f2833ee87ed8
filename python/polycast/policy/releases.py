"""The recorded releases of PyTorch: the category of each op, and a policy with these categories."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from polycast._extension import DEVICES, DEVICES_LIKE, obstacles, overloads_of
from polycast._suggest import did_you_mean
from polycast.policy.categories import STOCK, UNLISTED
from polycast.policy.rules import ATEN, BY_OVERLOAD, Cell, Rows, exact_key, qualified, split_overload

_MAJOR, _MINOR = map(int, torch.__version__.split(".")[:2])
INSTALLED = (_MAJOR, _MINOR)
RECORDED = Path(__file__).with_name("releases.yaml")
ABSENT = "absent"
_NAME = re.compile(r"(torch[-_ ]?)?\d+(\.\d[\w.+]*)?(?<!\.yaml)(?<!\.yml)", re.ASCII | re.IGNORECASE)


class Release(NamedTuple):
    """A release of PyTorch, with the categories of overloads on the recorded devices."""

    name: str
    packages: dict[str, str]
    devices: tuple[str, ...]
    ops: Mapping[str, dict[str, str] | str]
    """The categories of each overload ("pow.Scalar") by device, or "absent" if the release lacks the overload."""
    reasons: Mapping[Any, str]
    """The reason why each overload's categories changed in the release. For a policy, the notes of rules by key."""
    number: tuple[int, int] = INSTALLED
    """The version, as in (2, 11)."""

    def category(self, overload: str, device: str) -> str:
        """Return the category of an overload on a device, "unlisted", or "absent" if the release lacks the overload."""
        here = self.number != INSTALLED or qualified(overload) in overloads_of(qualified(split_overload(overload)[0]))
        row = self.ops.get(overload, {} if here else ABSENT)
        return row if isinstance(row, str) else row.get(device, UNLISTED)


@cache
def releases() -> dict[str, Release]:
    """Return the recorded releases by their names, the oldest first.

    Example:
        >>> from polycast.policy.releases import releases
        >>> releases()["torch-2.12"].category("rms_norm", "cuda")
        'fp32'
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the parser in Python is ten times slower
    found: dict[str, Release] = {}
    ops: dict[str, dict[str, str] | str] = {}
    for name, record in yaml.load(RECORDED.read_text(encoding="utf-8"), Loader=loader).items():
        ops = {**ops, **record.get("ops", {})}
        reasons = {op: reason.strip() for op, reason in record.get("reasons", {}).items()}
        major, minor = map(int, name.removeprefix("torch-").split("."))
        found[name] = Release(name, record["recorded"], tuple(record["devices"]), ops, reasons, (major, minor))
    return found


def find(name: str) -> Release | None:
    """Return a recorded release by its name or its number; None for a string of another form, or an existing file.

    Raises:
        ValueError: If neither a recorded release nor a file has this name.

    Example:
        >>> from polycast.policy.releases import find
        >>> find("2.11").name, find("torch-2.11.yaml")
        ('torch-2.11', None)
    """
    if _NAME.fullmatch(name) is None:
        return None
    for known in (name, f"torch-{name}"):
        if known in releases():
            return releases()[known]
    if Path(name[:255]).is_file():
        return None
    raise ValueError(f"release: expected a recorded PyTorch release, got '{name}'; {did_you_mean(name, releases())}")


def rows_of(release: Release) -> Rows:
    """Return rows for the overloads whose category in a release differs from ``policy.yaml``.

    Overloads that the installed PyTorch does not have are omitted. The category of ``policy.yaml`` applies if the
    release lacks the overload, has the category "stock", or has no record of the device. A device without a record has
    a cell only if a device related by ``like`` has one, which the device would otherwise inherit.
    """
    rows: Rows = {}
    for name in sorted({*map(qualified, release.ops), *BY_OVERLOAD}):
        if name not in overloads_of(name.partition(".")[0]):
            continue
        asked, built_in = name.removeprefix(ATEN), BY_OVERLOAD.get(name, {})
        here = {device: built_in[device].category if device in built_in else UNLISTED for device in DEVICES}
        recorded = {device: release.category(asked, device) for device in release.devices}
        wanted = here | {device: category for device, category in recorded.items() if category not in (ABSENT, STOCK)}
        # A device inherits the rule of the device in its `like`, so either all related devices get a rule, or none.
        families = {_root(device) for device in DEVICES if wanted[device] != here[device]}
        key, reason = exact_key(name), release.reasons.get(asked, "")
        refused = obstacles(key, [None if value == STOCK else value for value in wanted.values()])
        cells: list[Cell | None] = []
        for device, obstacle in zip(DEVICES, refused, strict=True):
            note = reason if device in release.devices else f"built-in, because {release.name} has no record"
            has_cell = _root(device) in families and wanted[device] != STOCK and not obstacle
            cells.append(Cell(wanted[device], release.name, note) if has_cell else None)
        if any(cells):
            rows[key] = tuple(cells)
    return rows


def _root(device: str) -> str:
    """Return the last device in the chain of ``like`` that begins with a device."""
    like = DEVICES_LIKE[device]
    return device if like is None else _root(like)
