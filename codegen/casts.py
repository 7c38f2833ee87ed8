"""Reads `cast`: the categories of an op by device."""

from dataclasses import dataclass
from typing import TypeAlias

from .categories import UNLISTED, Category
from .fields import Reader
from .versions import ALL, SUPPORTED, VersionRange, parse_range, subtract
from .yaml_nodes import Mapping, Node, Sequence, Text

OTHERS = "others"


@dataclass(frozen=True)
class Alternative:
    """One category that `cast` gives a device, where it holds, and why. None is "unlisted"."""

    category: str | None
    node: Node
    torch: VersionRange = ALL
    overloads: tuple[str, ...] | None = None
    note: str | None = None


Casts: TypeAlias = dict[str, list[Alternative]]  # of an op, by device


class CastReader(Reader):
    """Reads casts for devices, each with the device that it is like."""

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
            return others  # `others: unlisted` keeps an op from the devices that are like a named one
        chain = [device]
        while chain[-1] not in named:
            like = self.like.get(chain[-1])
            if like is None or like in chain:
                return others
            chain.append(like)
        return named[chain[-1]]

    def read_alternatives(self, node: Node, overloads: list[str]) -> list[Alternative]:
        nodes = node.value if isinstance(node, Sequence) else (node,)
        if not nodes:
            self.report(node, "a cast is an empty list", "name a category")
        casts = [cast for item in nodes if (cast := self.read_cast(item, overloads)) is not None]
        for index, cast in enumerate(casts):
            only = set(cast.overloads or overloads)
            earlier = [other.torch for other in casts[:index] if only <= set(other.overloads or overloads)]
            if not subtract(cast.torch, earlier):
                self.report(cast.node, "those before this alternative leave it no release", "remove it")
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
            what = f"'{specifier}' is no range of torch releases"
            self.report(node, what, "write it as '>=2.10', '<2.13' or both with ','")
        if torch is not None and (torch & SUPPORTED).empty:
            what = f"'{torch}' is for no torch that polycast supports, which is {SUPPORTED}"
            self.report(node, what, "remove what is for those releases only")
            return None
        return torch
