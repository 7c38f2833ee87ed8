"""Sides next to each other, as a table: the ops that they cast differently, and the reasons."""

from collections.abc import Iterable
from shutil import get_terminal_size
from textwrap import fill
from typing import NamedTuple

from polycast._extension import DEVICES, overloads_of
from polycast.policy.categories import UNLISTED, Category
from polycast.policy.releases import ABSENT, INSTALLED, Release, releases
from polycast.policy.rules import BUILT_IN, Key, Rule, by_op, join_name, qualified, split_overload, table_of

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
        op, name = key[0], join_name(*key[:2])
        if self.release is not None and "::" not in op:
            return self.release.category(name, key[2])
        here = qualified(name) in overloads_of(qualified(op))
        return self.categories.get(key) or (UNLISTED if here else ABSENT)

    def overloads(self) -> set[tuple[str, str]]:
        """Return the overloads that it lists, and those that its PyTorch is known to lack."""
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


def differences(*sides: Side, device: str | None = None) -> str:
    """Return a table of what the last two sides do differently, with the reasons that are known; empty if nothing."""
    shared = [name for name in sides[-1].devices if name in sides[-2].devices]
    shared = [name for name in DEVICES if name in shared] if device is None else [device]
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
    table = table_of(by_op(cells), *(side.title for side in sides), "why")
    return "\n".join([table, "", *map(_filled, notes)]).rstrip("\n")


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
