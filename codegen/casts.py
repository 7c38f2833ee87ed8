"""The reader of `cast`: the categories of an op by device."""

from dataclasses import dataclass
from typing import TypeAlias

from .categories import UNLISTED, Category
from .fields import Reader
from .versions import ALL, SUPPORTED, VersionRange, parse_range, subtract
from .yaml_nodes import Mapping, Node, Sequence, Text

OTHERS = "others"


@dataclass(frozen=True)
class Alternative:
    """A category that `cast` gives an op on a device, for some releases and overloads. None is "unlisted"."""

    category: str | None
    node: Node
    torch: VersionRange = ALL
    overloads: tuple[str, ...] | None = None
    note: str | None = None


Casts: TypeAlias = dict[str, list[Alternative]]  # the alternatives of an op by device


class CastReader(Reader):
    """A reader of casts for devices, each with the device that it is like."""

    def __init__(self) -> None:
        super().__init__()
        self.like: dict[str, str | None] = {}

    def read_casts(self, key: Text, node: Node, overloads: list[str]) -> Casts:
        """Return the alternatives of each device, with `like` and `others` resolved."""
        if not isinstance(node, Mapping) or "as" in [name.value for name, _ in node.value]:
            casts = self.read_alternatives(node, overloads)
            return dict.fromkeys(self.like, casts) if casts else {}
        named: Casts = {}
        for device, value in self.entries(node, f"cast of op '{key.value}'"):
            casts = self.read_alternatives(value, overloads)
            if (name := self.device(device)) is not None:
                named[name] = casts
        return {device: casts for device in self.like if (casts := self.resolve(device, named))}

    def device(self, node: Text) -> str | None:
        return self.name(node, "device", [*self.like, OTHERS])

    def category(self, node: Node) -> str | None:
        return self.name(node, "category", [*(category.value for category in Category), UNLISTED])

    def resolve(self, device: str, named: Casts) -> list[Alternative]:
        others = named.get(OTHERS, [])
        if device not in named and others and all(cast.category is None for cast in others):
            return others  # with `others: unlisted` the devices that are like a named one are unlisted as well
        link: str | None = device
        while link is not None and link not in named:
            link = self.like[link]
        return others if link is None else named[link]

    def read_alternatives(self, node: Node, overloads: list[str]) -> list[Alternative]:
        nodes = node.value if isinstance(node, Sequence) else (node,)
        if not nodes:
            self.report(node, "a cast: expected a category, got an empty list", "write a category such as fp32")
        casts = [cast for item in nodes if (cast := self.read_cast(item, overloads)) is not None]
        for index, cast in enumerate(casts):
            only = set(cast.overloads or overloads)
            earlier = [other.torch for other in casts[:index] if only <= set(other.overloads or overloads)]
            if not subtract(cast.torch, earlier):
                self.report(cast.node, "earlier alternatives already cover all releases of this one", "remove it")
        return casts

    def read_cast(self, node: Node, overloads: list[str]) -> Alternative | None:
        keys = ("as", "torch", "overloads", "note")
        fields = {"as": node} if isinstance(node, Text) else self.fields(node, "a cast", keys, ("as",))
        if fields is None:
            return None
        category = self.category(fields["as"])
        torch = self.read_range(fields["torch"]) if "torch" in fields else ALL
        note = self.text(fields["note"], "note") if "note" in fields else None
        only: tuple[str, ...] | None = None
        if "overloads" in fields:
            texts = self.texts(fields["overloads"], "overloads")
            only = tuple(text.value for text in texts if self.name(text, "overload", overloads))
        if category is None or torch is None:
            return None
        return Alternative(None if category == UNLISTED else category, fields["as"], torch, only, note)

    def read_range(self, node: Node) -> VersionRange | None:
        specifier = self.text(node, "torch")
        torch = parse_range(specifier) if specifier is not None else None
        if specifier is not None and torch is None:
            what = f"torch: expected a range of PyTorch releases, got '{specifier}'"
            self.report(node, what, "write it as '>=2.10', '<2.13' or both with ','")
        if torch is not None and (torch & SUPPORTED).empty:
            what = f"polycast supports PyTorch {SUPPORTED}, and '{torch}' is for older releases only"
            self.report(node, what, "remove the entry")
            return None
        return torch
