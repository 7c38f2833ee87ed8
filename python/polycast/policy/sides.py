"""Policies, releases and devices side by side: a table of what they do differently, and why."""

from collections.abc import Iterable
from shutil import get_terminal_size
from textwrap import fill
from typing import NamedTuple

from polycast import backends
from polycast._compiled import ALSO_CALLED, DEVICES
from polycast._grammar.categories import UNLISTED, Category, canonical
from polycast._grammar.errors import did_you_mean
from polycast._grammar.names import join_name
from polycast._grammar.releases import ABSENT, Release
from polycast._suggest import suggestion
from polycast.policy.operators import signatures
from polycast.policy.reader import RELEASE
from polycast.policy.releases import find, is_release, releases
from polycast.policy.rules import BUILT_IN, VALUES, Rule
from polycast.policy.sources import is_file, rules_from
from polycast.policy.writing import Key, table_of

BUILT_IN_NAME = "built-in"  # the built-in policy
LEFT_ALONE = f"{UNLISTED}: autocast leaves it alone; the ops that it runs follow their own rules."
_NOTES = {
    UNLISTED: LEFT_ALONE,
    Category.INPUT_DTYPE.value: "input_dtype: runs in the dtype of its inputs, and so does all that it runs.",
    ABSENT: f"{ABSENT}: that torch has no such op or overload.",
}


class Side(NamedTuple):
    """What is compared: the category of each overload that it lists on each device, and the reasons that it gives."""

    title: str
    devices: tuple[str, ...]
    categories: dict[Key, str]
    reasons: dict[Key, str]
    release: Release | None = None

    def category(self, key: Key) -> str:
        op, overload, device = key
        if self.release is not None and "::" not in op:
            return self.release.category(op, overload, device)
        return self.categories.get(key) or (UNLISTED if overload in signatures(op) else ABSENT)

    def overloads(self) -> set[tuple[str, str]]:
        """Return the overloads that it lists, and those that its torch is known to lack."""
        return {key[:2] for key in self.categories} | (self.release.absent if self.release is not None else set())

    @property
    def version(self) -> tuple[int, int]:
        """The torch that it is of."""
        return RELEASE if self.release is None else self.release.number


def side_of(title: str, rules: Iterable[Rule] = ()) -> Side:
    """Return the side of rules over the built-in ones."""
    held = {rule.key: rule for rule in (*BUILT_IN, *rules)}
    categories = {key: rule.category for key, rule in held.items()}
    return Side(title, tuple(DEVICES), categories, {key: rule.note for key, rule in held.items() if rule.note})


def diff(one: str, other: str, device: str | None = None) -> str:
    """Return a table of what two sides do differently, with the reasons that are known.

    Args:
        one: "built-in" for the built-in policy, or a device, or a text that :class:`polycast.Policy` takes: a recorded
            release ("torch-2.11"), a file of rules, a category.
        other: As `one`; a device beside a device.
        device: The device to look at alone; None for all that both sides know.

    Raises:
        ValueError: There is no such side or device, or a file has problems.

    Example:
        >>> from polycast.policy.sides import diff
        >>> print(diff("torch-2.13", "torch-2.14", "cuda").partition(chr(10) * 2)[0])
        op                   device  torch-2.13  torch-2.14  why
        linalg_matrix_sqrth  cuda    absent      fp32        [1]
    """
    devices = [_device(name) for name in (one, other)]
    if None in devices and devices != [None, None]:
        name, rest = (one, other) if devices[0] else (other, one)
        meant = ALSO_CALLED.get(rest.lower(), rest)
        raise ValueError(f"'{name}' is a device and '{rest}' is none{suggestion(meant, DEVICES)}")
    if None not in devices and device is not None:
        raise ValueError(f"'{one}' and '{other}' are devices already; leave out --device")
    sides = [_side(name, held) for name, held in zip((one, other), devices, strict=True)]
    table = differences(*sides, device=None if device is None else _wanted(device, sides))
    found = table or f"{sides[0].title} and {sides[1].title} do the same."
    apart = [name for name in DEVICES if device is None and (name in sides[0].devices) != (name in sides[1].devices)]
    return found + (f"\nNot compared, as one has no record of it: {', '.join(apart)}." if apart else "")


def differences(*sides: Side, device: str | None = None) -> str:
    """Return a table of what the last two sides do differently, with the reasons that are known; empty if nothing."""
    shared = [name for name in sides[-1].devices if name in sides[-2].devices]
    shared = [*filter(shared.__contains__, DEVICES), *filter("".__eq__, shared)] if device is None else [device]
    overloads = sorted(sides[-1].overloads() | sides[-2].overloads())
    cells: dict[Key, tuple[str, ...]] = {}
    numbers: dict[str, str] = {"": ""}
    for key in [(*overload, name) for overload in overloads for name in shared]:
        categories = tuple(side.category(key) for side in sides)
        # Nobody casts what one side does not have and the other does not list.
        if categories[-1] != categories[-2] and {*categories[-2:]} != {ABSENT, UNLISTED}:
            reason = _reason(sides[-2], sides[-1], key)
            cells[key] = (*categories, numbers.setdefault(reason, f"[{len(numbers)}]"))
    found = {category for cell in cells.values() for category in cell}
    if not found:
        return ""
    notes = [text for category, text in _NOTES.items() if category in found]
    notes += [f"{number} {reason}" for reason, number in numbers.items() if reason]
    table = table_of(cells, *(side.title for side in sides), "why")
    return "\n".join([table, "", *map(_filled, notes)]).rstrip("\n")


def _device(name: str) -> str | None:
    """Return the device of the policy that a name means; None for a name of something else."""
    if name in DEVICES:
        return name
    return backends.device_of(name) if name in backends.device_types() else None


def _wanted(name: str, sides: Iterable[Side]) -> str:
    device = _device(name)
    if device is None:
        meant = ALSO_CALLED.get(name.lower(), name)
        raise ValueError(f"unknown device '{name}'; {did_you_mean(meant, DEVICES)}")
    for side in sides:
        if device not in side.devices:
            raise ValueError(f"{side.title} has no record of {device}; it has {', '.join(side.devices)}")
    return device


def _side(name: str, device: str | None) -> Side:
    if device is not None:
        return _side_of_device(device)
    if name == BUILT_IN_NAME:
        return side_of(name)
    if is_release(name):
        return _side_of_release(find(name))
    if canonical(name) not in VALUES and not is_file(name):
        meant = ALSO_CALLED.get(name.lower(), name)
        close = suggestion(meant, (BUILT_IN_NAME, *releases(), *DEVICES)) or "; files of rules end in .yaml"
        raise ValueError(f"'{name}' is neither {BUILT_IN_NAME}, a release, a device nor a file{close}")
    return side_of(name, rules_from(name))


def _side_of_release(release: Release) -> Side:
    """Return the side of a release as it was recorded, which may have ops that the torch that runs lacks."""
    return Side(release.name, release.devices, dict(release.rules), {}, release)


def _side_of_device(device: str) -> Side:
    """Return the side of a device, to be compared with another device."""
    held = {(rule.op, rule.overload, ""): rule for rule in BUILT_IN if rule.device == device}
    reasons = {key: rule.note for key, rule in held.items() if rule.note}
    return Side(device, ("",), {key: rule.category for key, rule in held.items()}, reasons)


def _reason(one: Side, other: Side, key: Key) -> str:
    """Return what the sides say of an overload, and what the releases between them say."""
    name, (first, last) = join_name(*key[:2]), sorted((one.version, other.version))
    said = [side.reasons.get(key, "") for side in (one, other)]
    if first != last:
        between = [release for release in releases().values() if first < release.number <= last]
        said += [release.reasons.get(name, "") for release in between]
    return " ".join(dict.fromkeys(filter(None, said)))


def _filled(text: str) -> str:
    return fill(text, width=min(100, get_terminal_size((100, 0)).columns), break_on_hyphens=False)
