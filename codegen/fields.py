"""Reads nodes as texts, names, lists and mappings, and reports a node that has another form."""

import re
from collections.abc import Iterable, Iterator

from .yaml_nodes import Mapping, Node, Problem, Sequence, Text, did_you_mean, location

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Reader:
    """Reads nodes. A node of another form than asked for becomes a problem, and reads as None."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def report(self, node: Node, what: str, remedy: str) -> None:
        self.problems.append(Problem(location(node), what, remedy))

    def report_unknown(self, node: Node, what: str, name: str, known: Iterable[str]) -> None:
        """Report an unknown name, with the known name that is likely meant."""
        self.report(node, what, did_you_mean(name, known))

    def text(self, node: Node, what: str) -> str | None:
        if isinstance(node, Text) and node.value.strip():
            value: str = node.value
            return value
        self.report(node, f"{what} is {_form(node)}", "give it a text")
        return None

    def identifier(self, node: Node, what: str) -> str | None:
        """Read a text that is an identifier, so that C++ and Markdown can hold it as it is."""
        value = self.text(node, what)
        if value is not None and not _IDENTIFIER.fullmatch(value):
            self.report(node, f"{what} '{value}' is no identifier", "use letters, digits and '_'")
            return None
        return value

    def name(self, node: Node, what: str, known: Iterable[str]) -> str | None:
        """Read a known name."""
        names = list(known)
        value = self.text(node, what)
        if value is not None and value not in names:
            self.report_unknown(node, f"unknown {what} '{value}'", value, names)
            return None
        return value

    def texts(self, node: Node, what: str) -> list[Text]:
        """Read a list of different texts."""
        if not isinstance(node, Sequence) or not node.value:
            self.report(node, f"{what} is {_form(node)}", "give it a list of names, as in [one, two]")
            return []
        texts: dict[str, Text] = {}
        for item in node.value:
            if self.text(item, f"an item of {what}") is None or not isinstance(item, Text):
                continue
            if texts.setdefault(item.value, item) is not item:
                self.report(item, f"{what} names '{item.value}' twice", "keep one of them")
        return list(texts.values())

    def entries(self, node: Node, what: str) -> Iterator[tuple[Text, Node]]:
        """Read a mapping with any keys."""
        if not isinstance(node, Mapping) or not node.value:
            self.report(node, f"{what} is {_form(node)}", "give it a mapping, as in {name: value}")
            return
        yield from node.value

    def fields(
        self, node: Node, what: str, known: tuple[str, ...], required: tuple[str, ...]
    ) -> dict[str, Node] | None:
        """Read a mapping with known keys; None if it is no mapping or lacks a required key."""
        if not isinstance(node, Mapping):
            remedy = f"give it a mapping with the keys {', '.join(known)}"
            self.report(node, f"{what} is {_form(node)}", remedy)
            return None
        found = {key.value: value for key, value in node.value if key.value in known}
        for key, _ in node.value:
            if key.value not in known:
                self.report_unknown(key, f"unknown key '{key.value}' of {what}", key.value, known)
        missing = [name for name in required if name not in found]
        for name in missing:
            self.report(node, f"{what} has no '{name}'", "add it")
        return None if missing else found


def _form(node: Node) -> str:
    if isinstance(node, Text):
        return f"the text '{node.value}'" if node.value.strip() else "empty"
    kind = "list" if isinstance(node, Sequence) else "mapping"
    return f"a {kind}" if node.value else f"an empty {kind}"
