"""The reader of strings, names, lists and mappings from nodes. It reports nodes of the wrong form."""

import re
from collections.abc import Iterable, Iterator

from .yaml_nodes import Mapping, Node, Problem, Sequence, Text, did_you_mean, location

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Reader:
    """A reader of nodes. It reports a node of the wrong form as a problem, and returns None or an empty result."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def report(self, node: Node, what: str, remedy: str) -> None:
        self.problems.append(Problem(location(node), what, remedy))

    def text(self, node: Node | None, what: str) -> str | None:
        if node is None:  # this optional key is omitted
            return None
        if isinstance(node, Text) and node.value.strip():
            value: str = node.value
            return value
        self.report(node, f"{what}: expected a string, got {form(node)}", "write a string")
        return None

    def identifier(self, node: Node | None, what: str) -> str | None:
        """Read an identifier, which C++ and Markdown can contain without quotes."""
        value = self.text(node, what)
        if node is not None and value is not None and not _IDENTIFIER.fullmatch(value):
            self.report(node, f"{what}: expected an identifier, got '{value}'", "use letters, digits and '_'")
            return None
        return value

    def name(self, node: Node | None, what: str, known: Iterable[str]) -> str | None:
        """Read a string that is one of the known names."""
        names = list(known)
        value = self.text(node, what)
        if node is not None and value is not None and value not in names:
            self.report(node, f"{what}: expected a known name, got '{value}'", did_you_mean(value, names))
            return None
        return value

    def texts(self, node: Node, what: str) -> list[Text]:
        """Read a list of different strings."""
        if not isinstance(node, Sequence) or not node.value:
            self.report(node, f"{what}: expected a list of names, got {form(node)}", "write it as [one, two]")
            return []
        texts: dict[str, Text] = {}
        for item in node.value:
            if self.text(item, f"an item of {what}") is None or not isinstance(item, Text):
                continue
            if texts.setdefault(item.value, item) is not item:
                self.report(item, f"{what} names '{item.value}' twice", "remove one of them")
        return list(texts.values())

    def named(self, node: Node, what: str, remedy: str) -> tuple[Text, Node | None] | None:
        """Read a name, or a mapping from one name to its details."""
        if isinstance(node, Text):
            return node, None
        if isinstance(node, Mapping) and len(node.value) == 1:
            name, details = node.value[0]
            return name, details
        given = f"a mapping with {len(node.value)} keys" if isinstance(node, Mapping) and node.value else form(node)
        self.report(node, f"{what}: expected a name or a mapping with one key, got {given}", remedy)
        return None

    def entries(self, node: Node, what: str) -> Iterator[tuple[Text, Node]]:
        """Read a mapping with any keys."""
        if not isinstance(node, Mapping) or not node.value:
            self.report(node, f"{what}: expected a mapping, got {form(node)}", "write it as {name: value}")
            return
        yield from node.value

    def fields(
        self, node: Node, what: str, known: tuple[str, ...], required: tuple[str, ...]
    ) -> dict[str, Node] | None:
        """Read a mapping with known keys. Return None if the node is not a mapping or lacks a required key."""
        if not isinstance(node, Mapping):
            self.report(node, f"{what}: expected a mapping, got {form(node)}", f"use the keys {', '.join(known)}")
            return None
        found = {key.value: value for key, value in node.value if key.value in known}
        unknown = [key for key, _ in node.value if key.value not in known]
        for key in unknown:
            remedy = did_you_mean(key.value, known)
            if not _IDENTIFIER.fullmatch(key.value):  # the comma in {note: Yes, we do.} begins such a key
                remedy = "if it continues the string before the comma, put the whole string in quotes"
            self.report(key, f"{what}: expected a known key, got '{key.value}'", remedy)
        missing = [name for name in required if name not in found]
        for name in missing if not unknown else ():  # an unknown key is probably a misspelled required one
            self.report(node, f"{what} has no '{name}'", "add it")
        return None if missing else found


def form(node: Node) -> str:
    if isinstance(node, Text):
        return f"the string '{node.value}'" if node.value.strip() else "nothing"
    kind = "list" if isinstance(node, Sequence) else "mapping"
    return f"a {kind}" if node.value else f"an empty {kind}"
