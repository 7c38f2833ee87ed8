"""The recorded releases of torch, which are policies: what torch does to each op."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from polycast._compiled import DEVICES, DEVICES_LIKE
from polycast._grammar.categories import UNLISTED, Category
from polycast._grammar.errors import did_you_mean
from polycast._grammar.names import join_name
from polycast._grammar.releases import ABSENT, Release, read_releases
from polycast.policy import operators
from polycast.policy.operators import Target
from polycast.policy.rules import BUILT_IN, VALUES, Rule

RECORDED = Path(__file__).with_name("releases.yaml")
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
    """Return a recorded release, by its name or by its number alone.

    Raises:
        ValueError: It is not recorded.
    """
    for known in (name, f"torch-{name}"):
        if known in releases():
            return releases()[known]
    raise ValueError(f"unknown release '{name}'; {did_you_mean(name, releases())}")


def rules_of(release: Release) -> Iterator[Rule]:
    """Yield a rule where a release differs from policy.yaml, under the torch that runs.

    Overloads that the torch that runs does not have are left out. policy.yaml decides where the release has no such
    overload or keeps a kernel that is written by hand, and on each device of which the release has no record: there a
    rule, whose note says so, only keeps the built-in category against the rule of the device that it is like.
    """
    built_in = {rule.key: rule.category for rule in BUILT_IN}
    for op, overload in sorted({key[:2] for key in built_in} | release.overloads()):
        if overload not in operators.signatures(op):
            continue
        here = {device: built_in.get((op, overload, device), UNLISTED) for device in DEVICES}
        wanted = {device: _wanted(release, op, overload, device, here[device]) for device in DEVICES}
        # A rule for a device also holds for those that are like it. So all of them get a rule, or none.
        families = {_root(device) for device in DEVICES if wanted[device] != here[device]}
        reason = release.reasons.get(join_name(op, overload), "")
        for device in DEVICES:
            if _root(device) in families and _can(op, overload, device, wanted[device]):
                note = reason if device in release.devices else f"no record in {release.name}: the built-in category"
                yield Rule(op, overload, device, wanted[device], note, release.name)


def _wanted(release: Release, op: str, overload: str, device: str, here: str) -> str:
    """Return what a release gives an overload on a device, or `here`, what policy.yaml does."""
    category = release.category(op, overload, device) if device in release.devices else here
    return here if category in (ABSENT, Category.STOCK.value) else category


def _root(device: str) -> str:
    """Return the device that this one is like in the end."""
    like = DEVICES_LIKE[device]
    return device if like is None else _root(like)


def _can(op: str, overload: str, device: str, category: str) -> bool:
    """Return whether our kernels can do it. They can for every release that was recorded."""
    if category not in VALUES:
        return False
    signature = operators.signatures(op)[overload]
    return operators.obstacle(Target(op, overload), signature, VALUES[category][0], device) is None
