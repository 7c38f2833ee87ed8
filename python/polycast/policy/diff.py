"""What two policies or releases do differently, as a table with the reasons."""

from collections.abc import Iterable
from shutil import get_terminal_size
from textwrap import fill
from typing import NamedTuple

from polycast._extension import DEVICES, overloads_of
from polycast._suggest import suggestion
from polycast.policy.categories import UNLISTED, VALUES, Category, canonical
from polycast.policy.op_names import device_named
from polycast.policy.policy import Policy, is_file
from polycast.policy.releases import ABSENT, INSTALLED, Release, find, is_release, releases
from polycast.policy.rules import BUILT_IN, Key, Rule, by_op, join_name, qualified, split_overload, table_of

BUILT_IN_NAME = "built-in"  # the built-in policy
LEFT_ALONE = f"{UNLISTED}: autocast leaves it alone; the ops that it runs follow their own rules."
_NOTES = {
    UNLISTED: LEFT_ALONE,
    Category.INPUT_DTYPE.value: "input_dtype: runs in the dtype of its inputs, and so does all that it runs.",
    ABSENT: f"{ABSENT}: that torch has no such op or overload.",
}


class Side(NamedTuple):
    """One of two that are compared: the category of each overload that it lists on each device, and its reasons."""

    title: str
    devices: tuple[str, ...]
    categories: dict[Key, str]
    reasons: dict[Key, str]
    release: Release | None = None

    def category(self, key: Key) -> str:
        op, name = key[0], join_name(*key[:2])
        if self.release is not None and "::" not in op:
            return self.release.category(name, key[2])
        here = qualified(name) in overloads_of(qualified(op))
        return self.categories.get(key) or (UNLISTED if here else ABSENT)

    def overloads(self) -> set[tuple[str, str]]:
        """Return the overloads that it lists, and the overloads that its PyTorch is known to lack."""
        if self.release is not None:
            return set(map(split_overload, self.release.ops))
        return {key[:2] for key in self.categories}

    @property
    def version(self) -> tuple[int, int]:
        """The torch that it is of."""
        return INSTALLED if self.release is None else self.release.number


def side_of(title: str, rules: Iterable[Rule] = ()) -> Side:
    """Return the side of rules over the built-in ones."""
    held = {rule.key: rule for rule in (*BUILT_IN, *rules)}
    categories = {key: rule.category for key, rule in held.items()}
    return Side(title, tuple(DEVICES), categories, {key: rule.note for key, rule in held.items() if rule.note})


def diff(one: str, other: str, device: str | None = None) -> str:
    """Return a table of what two sides do differently, with the reasons that are known.

    Args:
        one: "built-in" for the built-in policy, or whatever text :class:`polycast.Policy` accepts: a recorded release
            ("torch-2.11"), a policy file, a category.
        other: As `one`.
        device: The only device to compare; None for all that both sides know.

    Raises:
        ValueError: If there is no such side or device, or a file has problems.

    Example:
        >>> from polycast.policy.diff import diff
        >>> print(diff("torch-2.13", "torch-2.14", "cuda").partition(chr(10) * 2)[0])
        op                   device  torch-2.13  torch-2.14  why
        linalg_matrix_sqrth  cuda    absent      fp32        [1]
    """
    sides = [_side(name) for name in (one, other)]
    wanted = None if device is None else device_named(device)
    for side in sides:
        if wanted is not None and wanted not in side.devices:
            raise ValueError(f"{side.title} has no record of {wanted}; it has {', '.join(side.devices)}")
    left, right = sides
    table = differences(left, right, wanted) or f"{left.title} and {right.title} do the same."
    apart = [name for name in DEVICES if (name in left.devices) != (name in right.devices)]
    return table + (f"\nNot compared, as one has no record of it: {', '.join(apart)}." if apart and not wanted else "")


def _side(name: str) -> Side:
    if name == BUILT_IN_NAME:
        return side_of(name)
    if is_release(name):  # as it was recorded: it may have ops that the installed PyTorch lacks
        release = find(name)
        return Side(release.name, release.devices, {}, {}, release)
    if canonical(name) not in VALUES and not is_file(name):
        close = suggestion(name, (BUILT_IN_NAME, *releases())) or "; policy files end in .yaml"
        raise ValueError(f"'{name}' is not {BUILT_IN_NAME}, a release, a category or a policy file{close}")
    return side_of(name, Policy(name).by_overload())


def differences(one: Side, other: Side, device: str | None = None) -> str:
    """Return a table of what two sides do differently, with the reasons that are known; empty if nothing."""
    shared = [name for name in DEVICES if name in one.devices and name in other.devices and device in (None, name)]
    cells: dict[Key, tuple[str, ...]] = {}
    numbers: dict[str, str] = {"": ""}
    for key in [(*overload, name) for overload in sorted(one.overloads() | other.overloads()) for name in shared]:
        categories = one.category(key), other.category(key)
        # Nobody casts what one side does not have and the other does not list.
        if categories[0] != categories[1] and {*categories} != {ABSENT, UNLISTED}:
            reason = _reason(one, other, key)
            cells[key] = (*categories, numbers.setdefault(reason, f"[{len(numbers)}]"))
    if not cells:
        return ""
    found = {category for cell in cells.values() for category in cell}
    notes = [text for category, text in _NOTES.items() if category in found]
    notes += [f"{number} {reason}" for reason, number in numbers.items() if reason]
    width = min(100, get_terminal_size((100, 0)).columns)
    lines = [fill(note, width, break_on_hyphens=False) for note in notes]
    return "\n".join([table_of(by_op(cells), one.title, other.title, "why"), "", *lines]).rstrip("\n")


def _reason(one: Side, other: Side, key: Key) -> str:
    """Return what the sides say of an overload, and what the releases between them say."""
    name, (first, last) = join_name(*key[:2]), sorted((one.version, other.version))
    said = [side.reasons.get(key, "") for side in (one, other)]
    said += [release.reasons.get(name, "") for release in releases().values() if first < release.number <= last]
    return " ".join(dict.fromkeys(filter(None, said)))
