"""The model of a policy that has been read: frozen, checked, and independent of YAML and of the installed torch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from codegen.grammar.categories import UNLISTED, Category
from codegen.grammar.versions import ALL, VersionRange


@dataclass(frozen=True)
class Device:
    """A column of the policy."""

    name: str
    dispatch_key: str
    lower_precision: tuple[str, ...]
    like: str | None = None
    cache: bool = True  # whether the casts of its weights may be reused
    backend: str | None = None  # the file of the backend outside of torch that the column is for
    spoken: tuple[str, ...] = ()  # what else users call it


@dataclass(frozen=True)
class Overload:
    """One overload of an op. `dtype_overload` is the one that takes a dtype, for fp32_append_dtype."""

    name: str = "default"
    torch: VersionRange = ALL
    dtype_overload: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Registration:
    """A row of the policy: one overload on one device, for a range of torch releases."""

    op: str
    overload: Overload
    device: str
    category: Category
    torch: VersionRange = ALL
    note: str | None = None
    message: str | None = None

    @property
    def schema_name(self) -> str:
        return _schema_name(self.op, self.overload.name)

    @property
    def cpp_struct(self) -> str:
        """The struct of at::_ops that calls the overload."""
        return _cpp_struct(self.op, self.overload.name)

    @property
    def cpp_target(self) -> str | None:
        """The struct of at::_ops of the overload with a dtype, where there is one."""
        if self.overload.dtype_overload is None:
            return None
        return _cpp_struct(self.op, self.overload.dtype_overload)

    @property
    def reaches(self) -> str:
        """The overload that a call arrives at below autocast."""
        appends = self.category is Category.FP32_APPEND_DTYPE
        return _schema_name(self.op, (self.overload.dtype_overload if appends else None) or self.overload.name)


@dataclass(frozen=True)
class Op:
    """An entry of the policy: an operator, the names under which people call it, and its rows."""

    name: str
    public: tuple[str, ...]
    registrations: tuple[Registration, ...]

    def categories(self, device: str) -> list[tuple[Category, VersionRange]]:
        """Return the categories of the op on a device, each with the releases it holds for.

        An overload that only some releases have does not narrow the category of the op.
        """
        held = dict.fromkeys((row.category, row.torch) for row in self.registrations if row.device == device)
        return [(category, torch) for category, torch in held if torch == ALL or (category, ALL) not in held]

    def by_overload(self, device: str) -> dict[str, str]:
        """Return what a device does to each overload that it lists: categories, with their releases."""
        found: dict[str, str] = {}
        for row in (row for row in self.registrations if row.device == device):
            text = row.category.value if row.torch == ALL else f"{row.category.value} (torch {row.torch})"
            earlier = found.get(row.schema_name)
            found[row.schema_name] = text if earlier is None else f"{earlier}; {text}"
        return found

    def groups(self) -> Iterator[tuple[Registration, tuple[str, ...]]]:
        """Yield each row once for all devices that have it, with their names."""
        found: dict[Registration, list[str]] = {}
        for row in self.registrations:
            found.setdefault(replace(row, device=""), []).append(row.device)
        yield from ((row, tuple(devices)) for row, devices in found.items())


@dataclass(frozen=True)
class Document:
    """A document that promises something of ops: the name of its file, and its title."""

    name: str
    title: str

    def __str__(self) -> str:
        return f"{self.title} ({self.name})"


@dataclass(frozen=True)
class DocumentList:
    """An op list of a document: its names as the document writes them, each with the ops that decide it."""

    document: Document
    devices: tuple[str, ...]
    dtypes: tuple[str, ...]
    category: Category
    names: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Policy:
    """A whole policy: devices in the order of the file, the categories' sentences, ops by name, documented lists.

    `composites` holds what people call that is no op of its own, with the ops that it runs.
    """

    devices: tuple[Device, ...]
    sentences: dict[Category, str]
    ops: tuple[Op, ...]
    documents: tuple[DocumentList, ...] = ()
    composites: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def cited(self, note: str) -> str:
        """Return a note with the title of each document beside the name of its file."""
        for document in dict.fromkeys(list_.document for list_ in self.documents):
            note = note.replace(document.name, str(document))
        return note

    def exceptions(self, device: Device) -> dict[str, list[str]]:
        """Return the overloads that a device treats otherwise than the one that it is like, by what it does to them."""
        found: dict[str, list[str]] = {}
        for op in self.ops:
            mine, its = op.by_overload(device.name), op.by_overload(device.like or "")
            for name in (name for name in {**mine, **its} if mine.get(name) != its.get(name)):
                found.setdefault(mine.get(name, UNLISTED), []).append(name)
        return dict(sorted(found.items()))

    def registrations(self) -> Iterator[Registration]:
        for op in self.ops:
            yield from op.registrations


def _schema_name(op: str, overload: str) -> str:
    return op if overload == "default" else f"{op}.{overload}"


def _cpp_struct(op: str, overload: str) -> str:
    return op if overload == "default" else f"{op}_{overload}"
