"""The rules of an op on every device, as a table with notes."""

from polycast import policy
from polycast._extension import DEVICES
from polycast._text_table import lines_of
from polycast.policy.categories import UNLISTED
from polycast.policy.differences import LEFT_ALONE
from polycast.policy.op_names import device_named, keys_of
from polycast.policy.query import rules_in
from polycast.policy.releases import find, releases
from polycast.policy.rules import shown
from polycast.scope import process

_HEAD = ("op", "category", "devices")


def text(name: str, device: str | None = None, release: str | None = None) -> str:
    """Return the rules of an op, or of the ops that a public name runs, on one device or on all.

    They are the built-in rules, or those of a PyTorch release.

    Raises:
        ValueError: If neither torch nor the policy knows the op, or the policy has no such device or release.
    """
    known = DEVICES if release is None else find(release).devices
    devices = [*known] if device is None else [device_named(device)]
    rules = policy.rules(name) if release is None else rules_in(find(release), name)
    if not rules:
        ops = {shown(key.partition(".")[0]) for key in keys_of(name)}
        where = "every device" if release is None else f"{', '.join(known)} in {find(release).name}"
        lines = [f"{name}: {UNLISTED} on {where}.", "", LEFT_ALONE, *_changes(ops)]
        return "\n".join([*lines, *_in_force(ops, devices)])
    cells: dict[str, dict[str, str]] = {}
    notes: dict[str, list[str]] = {}
    for rule in rules:
        cells.setdefault(rule.name, {})[rule.device] = rule.category
        if rule.note and rule.device in devices:
            notes.setdefault(f"{rule.name}: {rule.note}", []).append(rule.device)
    table = [_HEAD]
    for op, held in cells.items():
        for category in dict.fromkeys(held.get(device, UNLISTED) for device in devices):
            table.append((op, category, _names([one for one in devices if held.get(one, UNLISTED) == category])))
    lines = lines_of(table)
    if len({rule.op for rule in rules}) > 1:
        lines = [f"{name} runs these ops, each on some device or for some arguments:", "", *lines]
    footnotes = [LEFT_ALONE] if any(category == UNLISTED for _, category, _ in table) else []
    footnotes += [f"{note} ({', '.join(named)})" for note, named in notes.items()]
    ops = {rule.op for rule in rules}
    footnotes += _changes(ops)
    return "\n".join([*lines, *([""] if footnotes else []), *footnotes, *_in_force(ops, devices)])


def _changes(ops: set[str]) -> list[str]:
    """Return why torch changed overloads of these ops, a line for each change."""
    return [
        f"{name}, torch {release.name.removeprefix('torch-')}: {reason}"
        for release in releases().values()
        for name, reason in release.reasons.items()
        if name.partition(".")[0] in ops
    ]


def _in_force(ops: set[str], devices: list[str]) -> list[str]:
    """Return the rules by which POLYCAST_POLICY overrides the built-in rules of these ops."""
    held: dict[tuple[str, str], list[str]] = {}
    for rule in policy.current().by_overload():
        if rule.op in ops and rule.device in devices:
            held.setdefault((rule.name, rule.category), []).append(rule.device)
    rows = [(*key, _names(named)) for key, named in held.items()]
    return ["", f"{process.ENVIRONMENT_POLICY} overrides these rules:", "", *lines_of([_HEAD, *rows])] if rows else []


def _names(devices: list[str]) -> str:
    return "all" if devices == [*DEVICES] else ", ".join(devices)
