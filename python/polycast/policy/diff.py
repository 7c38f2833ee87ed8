"""Tables that compare the categories of two policies or releases, with the reasons for differences."""

from collections.abc import Iterable
from shutil import get_terminal_size
from textwrap import fill

from polycast._extension import DEVICES
from polycast._suggest import suggestion
from polycast.policy.categories import UNLISTED, VALUES, canonical
from polycast.policy.from_dict import is_file
from polycast.policy.op_names import device_named
from polycast.policy.policy import Policy
from polycast.policy.releases import ABSENT, Release, find, releases
from polycast.policy.rules import BUILT_IN, Key, Rule, by_op, split_overload, table_of

BUILT_IN_NAME = "built-in"
LEFT_ALONE = f"{UNLISTED}: autocast leaves the op alone; the ops that it runs follow their own rules."
_NOTES = {
    UNLISTED: LEFT_ALONE,
    "input_dtype": "input_dtype: the op and all ops that it runs use the dtypes of their inputs.",
    ABSENT: f"{ABSENT}: this PyTorch release has no such op or overload.",
}


def side_of(title: str, rules: Iterable[Rule] = ()) -> Release:
    """Return the built-in rules, overridden by the given rules, in the form of a release, for a comparison."""
    by_key = {rule.key: rule for rule in (*BUILT_IN, *rules)}
    ops: dict[str, dict[str, str]] = {}
    for rule in by_key.values():
        ops.setdefault(rule.name, {})[rule.device] = rule.category
    return Release(title, {}, tuple(DEVICES), ops, {key: rule.note for key, rule in by_key.items()})


def diff(one: str, other: str, device: str | None = None) -> str:
    """Return a table of the ops whose categories differ in two policies or releases, with the known reasons.

    Args:
        one: "built-in" for the built-in policy, or any str that :class:`polycast.Policy` accepts: a recorded release
            ("torch-2.11"), a policy file, a category, a dtype.
        other: The other policy or release, in the same form.
        device: The only device to compare; None for all devices of which both sides have a record.

    Raises:
        ValueError: If a policy, release or device is unknown, a release has no record of the device, or a file has
            problems.

    Example:
        >>> from polycast.policy.diff import diff
        >>> print(diff("torch-2.13", "torch-2.14", "cuda").partition(chr(10) * 2)[0])
        op                   device  torch-2.13  torch-2.14  why
        linalg_matrix_sqrth  cuda    absent      fp32        [1]
    """
    left, right = sides = [_side(name) for name in (one, other)]
    wanted = None if device is None else device_named(device)
    for side in sides:
        if wanted is not None and wanted not in side.devices:
            what = f"device: expected a device that {side.name} records, got '{wanted}'"
            raise ValueError(f"{what}; use one of {', '.join(side.devices)}")
    table = differences(left, right, wanted) or f"{left.name} and {right.name} have the same categories."
    apart = [name for name in DEVICES if (name in left.devices) != (name in right.devices)]
    if apart and wanted is None:
        table += f"\nNot compared, because one side has no record: {', '.join(apart)}."
    return table


def _side(name: str) -> Release:
    if name == BUILT_IN_NAME:
        return side_of(name)
    if (release := find(name)) is not None:  # Policy(name) would omit the ops that are not in the installed PyTorch
        return release
    if canonical(name) not in VALUES and not is_file(name):
        close = suggestion(name, (BUILT_IN_NAME, *releases())) or "; name a release, or a file such as rules.yaml"
        raise ValueError(
            f"SIDE: expected '{BUILT_IN_NAME}', a release, a category or a policy file, got '{name}'{close}"
        )
    return side_of(name, Policy(name).by_overload())


def differences(one: Release, other: Release, device: str | None = None) -> str:
    """Return a table of the ops whose categories differ in two releases, with the known reasons; "" if none differs."""
    shared = [name for name in DEVICES if name in one.devices and name in other.devices and device in (None, name)]
    cells: dict[Key, tuple[str, ...]] = {}
    numbers: dict[str, str] = {"": ""}
    for key in [(name, on) for name in sorted({*one.ops, *other.ops}, key=split_overload) for on in shared]:
        categories = one.category(*key), other.category(*key)
        # If one release does not have an op, and the other does not list it, neither casts the op.
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
    return "\n".join([table_of(by_op(cells), one.name, other.name, "why"), "", *lines]).rstrip("\n")


def _reason(one: Release, other: Release, key: Key) -> str:
    """Return the reasons for the categories of an overload, from both releases and the releases between them."""
    first, last = sorted((one.number, other.number))
    reasons = [one.reasons.get(key), other.reasons.get(key)]
    reasons += [release.reasons.get(key[0]) for release in releases().values() if first < release.number <= last]
    return " ".join(dict.fromkeys(filter(None, reasons)))
