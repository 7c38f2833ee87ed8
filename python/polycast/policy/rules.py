"""What a policy says of one overload of an op on one device."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from polycast._extension import DEVICES_LIKE, built_in_rules, obstacles, overloads_of
from polycast._text_table import lines_of

ATEN = "aten::"
DEFAULT = "default"  # the name of the overload that torch calls ""
Key = tuple[str, str, str]  # of a rule: op, overload, device
T = TypeVar("T")


def join_name(op: str, overload: str | None) -> str:
    """Return the name of an overload. The default overload, or none, has the name of its op."""
    return op if overload in (None, DEFAULT) else f"{op}.{overload}"


def split_overload(name: str) -> tuple[str, str]:
    """Return the op and the overload of the name of an overload."""
    op, _, overload = name.partition(".")
    return op, overload or DEFAULT


def shown(name: str, overload: str | None = None) -> str:
    """Return an op as people write it, without ATen's namespace and the name of the default overload."""
    return join_name(name.removeprefix(ATEN), overload)


def qualified(op: str) -> str:
    """Return an op with its namespace, which is ATen's if there is none."""
    return op if "::" in op else ATEN + op


def exact_key(overload: str) -> str:
    """Return the key of a row for one overload, such as "aten::mm.default", by its name in the dispatcher."""
    return overload if "." in overload else f"{overload}.{DEFAULT}"


def castable(op: str) -> list[str]:
    """Return the overloads of an op that a rule can cast on some device."""
    fp32 = ["fp32"] * len(DEVICES_LIKE)
    return [name for name in overloads_of(op) if "" in obstacles(exact_key(name), fp32)]


class Rule(NamedTuple):
    """What a policy says of one overload of an op on one device.

    Fields:
        op: The op, without the namespace of ATen: "softmax", "mylib::attention".
        overload: The overload, as in "int"; "default" for the one without a name.
        device: A device of the policy.
        category: A category, or a dtype, which replaces the region's, or "unlisted".
        note: The reason, in a sentence; empty if there is none. A built-in rule has one if it differs from PyTorch's.
        source: "policy.yaml", or the keys of a dict or a file.
    """

    op: str
    overload: str
    device: str
    category: str
    note: str = ""
    source: str = "policy.yaml"

    @property
    def name(self) -> str:
        """The overload as people write it: "softmax.int"; the default overload has the name of its op."""
        return join_name(self.op, self.overload)

    @property
    def key(self) -> Key:
        """The overload and the device that the rule is for."""
        return self.op, self.overload, self.device


class Rules(tuple[Rule, ...]):
    """Rules that print as a table."""

    def __str__(self) -> str:
        """Return a table of the rules, each with the place that it comes from."""
        cells = {
            rule.key: (rule.category, f"{rule.source}: {rule.note}" if rule.note else rule.source) for rule in self
        }
        return table_of(by_op(cells), "category", "from")


# The rules of policy.yaml, and each overload's by device.
BUILT_IN: tuple[Rule, ...] = tuple(Rule(*row) for row in built_in_rules())
BY_OVERLOAD: dict[str, dict[str, Rule]] = {}
for _rule in BUILT_IN:
    BY_OVERLOAD.setdefault(qualified(_rule.name), {})[_rule.device] = _rule


def table_of(cells: Mapping[str, Mapping[str, tuple[str, ...]]], *titles: str) -> str:
    """Return a table of the cells of ops by device. Equal devices share a line; empty columns are omitted."""
    lines: list[tuple[str, ...]] = [("op", "device", *titles)]
    for op, devices in cells.items():
        for cell in dict.fromkeys(devices.values()):
            held = [device for device in devices if devices[device] == cell]
            lines.append((op, "all" if len(held) == len(DEVICES_LIKE) else ", ".join(held), *cell))
    kept = [index for index in range(len(lines[0])) if any(line[index] for line in lines[1:])]
    return "\n".join(lines_of([tuple(line[index] for index in kept) for line in lines])) if kept else ""


def by_op(cells: Mapping[Key, T]) -> dict[str, dict[str, T]]:
    """Return the cells of each op by device, or those of each overload if they differ or one of them has none."""
    ops: dict[str, dict[str, dict[str, T]]] = {}
    for op, overload, device in cells:
        ops.setdefault(op, {}).setdefault(overload, {})[device] = cells[op, overload, device]
    found: dict[str, dict[str, T]] = {}
    for op, overloads in ops.items():
        first, *rest = overloads.values()
        # The installed PyTorch may lack an op that a release has.
        known = {split_overload(name)[1] for name in castable(qualified(op))} or {DEFAULT}
        if all(other == first for other in rest) and overloads.keys() == known:
            found[op] = first
        else:
            found |= {join_name(op, overload): devices for overload, devices in overloads.items()}
    return found
