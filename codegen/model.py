"""The model of a valid policy. It is frozen, and does not depend on YAML or on the installed PyTorch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .categories import DEFAULT, UNLISTED, Category, join_name
from .versions import ALL, VersionRange


@dataclass(frozen=True)
class Device:
    """A device of the policy: a device with an autocast key in PyTorch, or another set of rules for such a key."""

    name: str
    dispatch_key: str
    lower_precision: tuple[str, ...]
    like: str | None = None
    backend: str | None = None  # a backend outside of PyTorch has its op list in this file


@dataclass(frozen=True)
class Overload:
    """One overload of an op. `dtype_overload` is the overload with a dtype argument that `fp32_append_dtype` calls."""

    name: str = DEFAULT
    torch: VersionRange = ALL
    dtype_overload: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Rule:
    """The category of one overload on one device, for a range of PyTorch releases."""

    op: str
    overload: Overload
    device: str
    category: Category
    torch: VersionRange = ALL
    note: str | None = None
    message: str | None = None

    def __str__(self) -> str:
        return self.category.value if self.torch == ALL else f"{self.category.value} (torch {self.torch})"

    @property
    def schema_name(self) -> str:
        return join_name(self.op, self.overload.name)

    @property
    def cpp_struct(self) -> str:
        """The struct of `at::_ops` that calls the overload."""
        return self.schema_name.replace(".", "_")

    @property
    def cpp_target(self) -> str | None:
        """The struct of `at::_ops` that calls `dtype_overload`, or None."""
        target = self.overload.dtype_overload
        return None if target is None else join_name(self.op, target).replace(".", "_")

    @property
    def reaches(self) -> str:
        """The overload that is called below autocast."""
        appends = self.category is Category.FP32_APPEND_DTYPE
        return join_name(self.op, self.overload.dtype_overload) if appends else self.schema_name


@dataclass(frozen=True)
class Op:
    """An op of the policy: its name, its public names, and its rules."""

    name: str
    public: tuple[str, ...]
    rules: tuple[Rule, ...]

    def categories(self, device: str) -> list[tuple[Category, VersionRange]]:
        """Return the categories of the op on a device, each with its range of releases.

        A range is omitted if another overload has the same category in all releases.
        """
        found = dict.fromkeys((rule.category, rule.torch) for rule in self.rules if rule.device == device)
        return [(category, torch) for category, torch in found if torch == ALL or (category, ALL) not in found]

    def by_overload(self, device: str) -> dict[str, str]:
        """Return one string for each overload on a device: the categories of the overload, with their ranges."""
        found: dict[str, str] = {}
        for rule in (rule for rule in self.rules if rule.device == device):
            earlier = found.get(rule.schema_name)
            found[rule.schema_name] = str(rule) if earlier is None else f"{earlier}; {rule}"
        return found

    def groups(self) -> Iterator[tuple[Rule, tuple[str, ...]]]:
        """Yield each distinct rule, with "" as its device, and the names of all devices that have the rule."""
        found: dict[Rule, list[str]] = {}
        for rule in self.rules:
            found.setdefault(replace(rule, device=""), []).append(rule.device)
        yield from ((rule, tuple(devices)) for rule, devices in found.items())


@dataclass(frozen=True)
class Document:
    """A document with op lists: its key in `policy.yaml`, and its title."""

    name: str
    title: str

    def __str__(self) -> str:
        return f"{self.title} ({self.name})"


@dataclass(frozen=True)
class DocumentList:
    """An op list of a document. Each name is spelled as in the document, with the ops that it means."""

    document: Document
    devices: tuple[str, ...]
    dtypes: tuple[str, ...]
    category: Category
    names: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Policy:
    """A whole policy. The devices are in the order of the file, and the ops in alphabetical order.

    `sentences` describes each category in a sentence. `composites` lists the public names that run several
    ops, with these ops.
    """

    devices: tuple[Device, ...]
    sentences: dict[Category, str]
    ops: tuple[Op, ...]
    documents: tuple[DocumentList, ...] = ()
    composites: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def spell(self, devices: tuple[str, ...]) -> str:
        """Return a short string for a set of devices. It omits a device if the set also has the device's `like`.

        "-" excludes a device whose `like` is in the set. So a new device changes only the lines of rules in which it
        differs from its `like`.
        """
        stated = [device for device in self.devices if (device.name in devices) != (device.like in devices)]
        return " ".join(device.name if device.name in devices else f"-{device.name}" for device in stated)

    def exceptions(self, device: Device) -> dict[str, list[str]]:
        """Return the overloads whose category differs from the category on the device's `like`, by category."""
        found: dict[str, list[str]] = {}
        for op in self.ops:
            mine, its = op.by_overload(device.name), op.by_overload(device.like or "")
            for name in (name for name in {**mine, **its} if mine.get(name) != its.get(name)):
                found.setdefault(mine.get(name, UNLISTED), []).append(name)
        return dict(sorted(found.items()))

    def rules(self) -> Iterator[Rule]:
        for op in self.ops:
            yield from op.rules
