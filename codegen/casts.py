"""The reader of `cast`: the categories of an op by device."""

from dataclasses import dataclass
from typing import TypeAlias

from .categories import UNLISTED, Category, split_name
from .fields import Reader
from .versions import ALL, SUPPORTED, VersionRange, parse_range, subtract
from .yaml_nodes import Mapping, Node, Sequence, Text

OTHERS = "others"


@dataclass(frozen=True)
class Alternative:
    """One category of an op on a device, for some releases and overloads. The category None means `unlisted`."""

    category: str | None
    node: Node
    torch: VersionRange = ALL
    overloads: tuple[str, ...] | None = None
    note: str | None = None


Casts: TypeAlias = dict[str, list[Alternative]]  # an op has a list of alternatives for each device


class CastReader(Reader):
    """A reader of `cast`, with the `like` and the exceptions of each device."""

    def __init__(self) -> None:
        super().__init__()
        self.like: dict[str, str | None] = {}
        self.exceptions: dict[str, dict[str, Alternative]] = {}  # the inner keys are ops and overloads

    def read_casts(self, key: Text, node: Node, overloads: list[str]) -> Casts:
        """Return the alternatives of each device, with `like`, `others` and the exceptions of devices resolved."""
        named: Casts = {}
        if not isinstance(node, Mapping) or "as" in [name.value for name, _ in node.value]:
            named[OTHERS] = self.read_alternatives(node, overloads)
        else:
            for device, value in self.entries(node, f"cast of op '{key.value}'"):
                casts = self.read_alternatives(value, overloads)
                if (known := self.device(device)) is not None:
                    named[known] = casts
        for name in named:
            for cast in self.exceptions_for(key, name):
                what = f"device '{name}' has an exception for '{key.value}', but the op's 'cast' names the device"
                self.report(cast.node, what, "remove one of them")
        others = named.get(OTHERS, [])
        # `others: unlisted` cancels `like` for every device that `cast` does not name.
        rest = {OTHERS: others} if others and all(cast.category is None for cast in others) else named
        resolved = {device: self.resolve(key, device, named if device in named else rest) for device in self.like}
        return {device: casts for device, casts in resolved.items() if casts}

    def exceptions_for(self, key: Text, device: str) -> list[Alternative]:
        """Return the exceptions of a device for an op. Exceptions for single overloads come first."""
        exceptions = self.exceptions.get(device, {})
        mine = [cast for name, cast in exceptions.items() if split_name(name)[0] == key.value]
        return sorted(mine, key=lambda cast: cast.overloads is None)

    def device(self, node: Text) -> str | None:
        return self.name(node, "device", [*self.like, OTHERS])

    def category(self, node: Node) -> str | None:
        return self.name(node, "category", [*(category.value for category in Category), UNLISTED])

    def resolve(self, key: Text, device: str | None, named: Casts) -> list[Alternative]:
        """Return a device's alternatives, otherwise its exceptions, then the alternatives of `like` or `others`."""
        if device is None or device in named:
            return named.get(device or OTHERS, [])
        return [*self.exceptions_for(key, device), *self.resolve(key, self.like[device], named)]

    def read_alternatives(self, node: Node, overloads: list[str]) -> list[Alternative]:
        nodes = node.value if isinstance(node, Sequence) else (node,)
        if not nodes:
            self.report(node, "cast: expected a category, got an empty list", "write a category such as fp32")
        casts = [cast for item in nodes if (cast := self.read_cast(item, overloads)) is not None]
        for index, cast in enumerate(casts):
            only = set(cast.overloads or overloads)
            earlier = [other.torch for other in casts[:index] if only <= set(other.overloads or overloads)]
            if not subtract(cast.torch, earlier):
                self.report(cast.node, "this alternative never applies, because earlier ones match first", "remove it")
        return casts

    def read_cast(self, node: Node, overloads: list[str]) -> Alternative | None:
        if isinstance(node, Sequence):
            self.report(node, "cast: expected a category or a mapping, got a list", "write a category such as fp32")
            return None
        keys = ("as", "torch", "overloads", "note")
        fields = {"as": node} if isinstance(node, Text) else self.fields(node, "cast", keys, ("as",))
        if fields is None:
            return None
        category = self.category(fields["as"])
        torch = self.read_range(fields.get("torch"))
        note = self.text(fields.get("note"), "note")
        only: tuple[str, ...] | None = None
        if "overloads" in fields:
            texts = self.texts(fields["overloads"], "overloads")
            only = tuple(text.value for text in texts if self.name(text, "overload", overloads))
        if category is None or torch is None:
            return None
        return Alternative(None if category == UNLISTED else category, fields["as"], torch, only, note)

    def read_range(self, node: Node | None) -> VersionRange | None:
        if node is None:
            return ALL
        specifier = self.text(node, "torch")
        torch = parse_range(specifier) if specifier is not None else None
        if specifier is not None and torch is None:
            what = f"torch: expected a range of PyTorch releases, got '{specifier}'"
            self.report(node, what, "write '>=2.10', '<2.13' or '>=2.10,<2.13'")
        if torch is not None and (torch & SUPPORTED).empty:
            what = f"torch: expected a range with a supported release ({SUPPORTED}), got '{torch}'"
            self.report(node, what, "correct the range, or remove the alternative or overload with it")
            return None
        return torch
