"""Rules of overloads, rows of policies, names of ops and overloads, and tables."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

from polycast._extension import DEVICES_LIKE, built_in_rules, obstacles, overloads_of
from polycast._text_table import lines_of

ATEN = "aten::"
EVERY = "*"  # this key is for every op that the built-in policy lists
DEFAULT = "default"  # in its schema, the overload has the name ""
Key = tuple[str, str]  # a key has the name of an overload, and a device
T = TypeVar("T")


def join_name(op: str, overload: str | None) -> str:
    """Return the name of an overload. The default overload, or None, has the name of the op."""
    return op if overload in (None, DEFAULT) else f"{op}.{overload}"


def split_overload(name: str) -> tuple[str, str]:
    """Split the name of an overload into op and overload."""
    op, _, overload = name.partition(".")
    return op, overload or DEFAULT


def shown(name: str, overload: str | None = None) -> str:
    """Return the name that users write: without ATen's namespace and the name of the default overload."""
    return join_name(name.removeprefix(ATEN), overload)


def qualified(op: str) -> str:
    """Return the name of an op with its namespace. A name without a namespace is an ATen op."""
    return op if "::" in op else ATEN + op


def exact_key(overload: str) -> str:
    """Return the row key of one overload, as in "aten::mm.default", from its name in the dispatcher."""
    return overload if "." in overload else f"{overload}.{DEFAULT}"


def castable(key: str) -> list[str]:
    """Return the dispatcher's names of the overloads to which a row with this key can apply."""
    names, fp32 = overloads_of(key), ["fp32"] * len(DEVICES_LIKE)
    return names if key == EVERY or "." in key else [name for name in names if "" in obstacles(exact_key(name), fp32)]


class Cell(NamedTuple):
    """The category of one device in a row, with the source of the rule, and a reason or ""."""

    category: str
    source: str
    note: str = ""


# A row has cells in the order of `DEVICES`. If a cell is None, the next wider key or the next policy applies.
Row: TypeAlias = tuple[Cell | None, ...]
# A key is an overload ("aten::pow.Scalar"), an op ("aten::pow") or `EVERY`. The narrowest key applies.
Rows: TypeAlias = dict[str, Row]
Casts: TypeAlias = str | dict[str, str]  # an op has a value of this type in a dict of rules


def overlaid(under: Row | None, over: Row) -> Row:
    """Merge two rows. The cells of ``over`` override the cells of ``under``."""
    return over if under is None else tuple(high or low for low, high in zip(under, over, strict=True))


def value_of(row: Row) -> Casts:
    """Return the value of a row in a dict of rules, without the devices that inherit their cell."""
    cells = zip(DEVICES_LIKE, row, strict=True)
    values = {device: cell.category for device, cell in cells if cell is not None}
    first, *rest = values.values()
    if len(values) == len(DEVICES_LIKE) and all(value == first for value in rest):
        return first
    return {device: value for device, value in values.items() if value != values.get(DEVICES_LIKE[device] or "")}


class Rule(NamedTuple):
    """The category that a policy sets for one overload of an op on one device.

    Fields:
        op: The op, without the namespace of ATen: "softmax", "mylib::attention".
        overload: The overload, as in "int"; "default" for the overload without a name.
        device: A device of the policy.
        category: A category, or a dtype that replaces the lower precision of the region, or "unlisted".
        note: The reason, or "". A built-in rule has a reason if it differs from PyTorch's or the backend's rule.
        source: "policy.yaml", the keys of the rule in a dict or a file, or a release, as in "torch-2.11".
    """

    op: str
    overload: str
    device: str
    category: str
    note: str = ""
    source: str = "policy.yaml"

    @property
    def name(self) -> str:
        """The overload as users write it: "softmax.int"; the default overload has the name of its op."""
        return join_name(self.op, self.overload)

    @property
    def key(self) -> Key:
        """The name of the overload, and the device."""
        return self.name, self.device


class Rules(tuple[Rule, ...]):
    """Rules that print as a table."""

    def __str__(self) -> str:
        """Return a table of the rules, each with its source."""
        cells = {
            rule.key: (rule.category, f"{rule.source}: {rule.note}" if rule.note else rule.source) for rule in self
        }
        return table_of(by_op(cells), "category", "from")


# These are the rules of `policy.yaml`, as a tuple, and by overload and device.
BUILT_IN: tuple[Rule, ...] = tuple(Rule(*row) for row in built_in_rules())
BY_OVERLOAD: dict[str, dict[str, Rule]] = {}
for _rule in BUILT_IN:
    BY_OVERLOAD.setdefault(qualified(_rule.name), {})[_rule.device] = _rule


def table_of(cells: Mapping[str, Mapping[str, tuple[str, ...]]], *titles: str) -> str:
    """Return a table of the cells of ops by device, without empty columns. Devices with equal cells share a line."""
    lines: list[tuple[str, ...]] = [("op", "device", *titles)]
    for op, devices in cells.items():
        for cell in dict.fromkeys(devices.values()):
            names = [device for device in devices if devices[device] == cell]
            lines.append((op, "all" if len(names) == len(DEVICES_LIKE) else ", ".join(names), *cell))
    filled = [index for index in range(len(lines[0])) if any(line[index] for line in lines[1:])]
    return "\n".join(lines_of([tuple(line[index] for index in filled) for line in lines])) if filled else ""


def by_op(cells: Mapping[Key, T]) -> dict[str, dict[str, T]]:
    """Return cells by op and device. Overloads stay separate if their cells differ or an overload has no cell."""
    found: dict[str, dict[str, T]] = {}
    for (name, device), cell in cells.items():
        found.setdefault(exact_key(qualified(name)), {})[device] = cell
    return {shown(key).removesuffix(f".{DEFAULT}"): devices for key, devices in shortened(found).items()}


def shortened(rows: Mapping[str, T], content: Callable[[T], object] = lambda row: row) -> dict[str, T]:
    """Return rows by key. If all overloads of an op have equal rows, the op has one row instead."""
    ops: dict[str, dict[str, T]] = {}
    for key, row in rows.items():
        ops.setdefault(key.partition(".")[0], {})[key] = row
    short: dict[str, T] = {}
    for op, own in ops.items():
        first, *rest = own.values()
        is_equal = all(content(row) == content(first) for row in rest)
        is_whole = is_equal and (op in own or own.keys() == {*map(exact_key, castable(op))})
        short.update({op: own.get(op, first)} if is_whole else own)
    return short
