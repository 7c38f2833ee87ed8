"""The recorded releases of torch, which are policies: what torch does to each op."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from polycast._compiled import DEVICES, DEVICES_LIKE, ROWS
from polycast._grammar.categories import UNLISTED, Category
from polycast._grammar.errors import Location, PolicyError, Problem
from polycast._grammar.names import join_name
from polycast._grammar.releases import ABSENT, Release, number_of, read_releases
from polycast._grammar.versions import VersionRange
from polycast.policy import operators
from polycast.policy.operators import ATEN, Target
from polycast.policy.rules import VALUES, Rule, make_rule

RECORDED = Path(__file__).parent / "recorded"
_NAME = re.compile(r"(?:torch[-_ ]?)?(\d+)(?:\.(\d+))?[\w.+]*", re.ASCII | re.IGNORECASE)


@cache
def releases() -> dict[str, Release]:
    """Return the recorded releases by their names, the oldest first.

    Example:
        >>> from polycast.policy.releases import releases
        >>> releases()["torch-2.12"].category("rms_norm", "default", "cuda")
        'fp32'
    """
    return read_releases(RECORDED)


def is_release(name: str) -> bool:
    """Return whether a text names a release of torch, recorded or not; the name of a file has a suffix.

    Example:
        >>> from polycast.policy.releases import is_release
        >>> is_release("torch-2.11"), is_release("torch-2.11.yaml")
        (True, False)
    """
    return _NAME.fullmatch(name) is not None and not name.endswith((".yaml", ".yml"))


def find(name: str) -> Release:
    """Return a recorded release.

    Raises:
        PolicyError: It is not recorded; the message lists those that are.
    """
    if name in releases():
        return releases()[name]
    match = _NAME.fullmatch(name)
    major, minor = (int(part or 0) for part in match.groups()) if match else (0, 0)

    def distance(other: str) -> int:
        return abs((major - number_of(other)[0]) * 1000 + minor - number_of(other)[1])

    nearest = min(releases(), key=distance)
    what = f"no release of that name is recorded, only {', '.join(releases())}"
    raise PolicyError([Problem(Location("history", 1, 1, name), what, f"the nearest is {nearest}")])


def versions_with(op: str, overload: str | None) -> VersionRange | None:
    """Return the range of releases that have an op or overload; None if all have it, or none.

    Example:
        >>> from polycast.policy.releases import versions_with
        >>> str(versions_with("cholesky", None)), versions_with("softmax", "int")
        ('<2.14', None)
    """
    absent = [
        release.number
        for release in releases().values()
        for name, part in release.absent
        if name == op and overload in (None, part)
    ]
    present = [release.number for release in releases().values() if release.number not in absent]
    if not absent or not present:
        return None
    first = min(present) if min(absent) < min(present) else None
    return VersionRange(first, min((number for number in absent if number > max(present)), default=None))


def rules_of(release: Release) -> Iterator[Rule]:
    """Yield a rule where a release differs from policy.yaml, under the torch that runs.

    policy.yaml decides where the release has no such overload, keeps a kernel that is written by hand, or has no record
    of the device. A device without a record follows the one that it is like, if policy.yaml treats the two alike.
    """
    base = {(row.op, row.overload, row.device): row.category for row in ROWS}
    source = f"history/{release.name}.yaml"
    for op, overload in sorted({(row.op, row.overload) for row in ROWS} | release.overloads()):
        if overload not in operators.signatures(ATEN + op):
            continue  # the torch that runs has none
        here = {column: base.get((op, overload, column), UNLISTED) for column in DEVICES}
        wanted = {column: _wanted(release, op, overload, column, here) for column in DEVICES}
        # A rule for a device also holds for those that are like it. So all of them get a rule, or none.
        families = {_root(column) for column in DEVICES if wanted[column] != here[column]}
        note = release.reasons.get(join_name(op, overload), "")
        for column in DEVICES:
            if _root(column) in families and _can(op, overload, column, wanted[column]):
                yield make_rule(ATEN + op, overload, column, wanted[column], source, note)


def _wanted(release: Release, op: str, overload: str, column: str, here: dict[str, str]) -> str:
    """Return what a release gives an overload on a device, or what policy.yaml does."""
    device: str | None = column
    while device is not None and device not in release.devices:
        device = DEVICES_LIKE[device]
    if device is None or (here[device] != here[column] and device != column):
        return here[column]
    category = release.category(op, overload, device)
    return here[column] if category in (ABSENT, Category.STOCK.value) else category


def _root(column: str) -> str:
    """Return the device that this one is like in the end."""
    like = DEVICES_LIKE[column]
    return column if like is None else _root(like)


def _can(op: str, overload: str, column: str, value: str) -> bool:
    """Return whether our kernels can do it. They can for every release that was recorded."""
    target = Target(ATEN + op, overload)
    if value not in VALUES:
        return False
    return operators.obstacle(target, operators.signatures(target.name)[overload], VALUES[value][0], column) is None
