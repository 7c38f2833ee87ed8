"""Reads nodes as texts, names, lists and mappings, and reports a node that has another form."""

import re
from collections.abc import Iterable, Iterator

from .errors import Location, Problem, closest, did_you_mean
from .nodes import Mapping, Node, Sequence, Text

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# A guess among all of torch's names takes milliseconds. A file with more problems than this is no policy.
_GUESSES = 100


class Reader:
    """Reads nodes. A node of another form than asked for becomes a problem, and reads as None."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems

    def report(self, location: Location, what: str, remedy: str) -> None:
        self.problems.append(Problem(location, what, remedy))

    def report_unknown(self, location: Location, what: str, name: str, known: Iterable[str]) -> None:
        """Report an unknown name, with the known name that is likely meant."""
        self.report(location, what, did_you_mean(name, known) if self.may_guess else "check the spelling")

    @property
    def may_guess(self) -> bool:
        """Whether problems still guess which name is meant."""
        return len(self.problems) < _GUESSES

    def text(self, node: Node, what: str) -> str | None:
        if isinstance(node, Text) and node.value.strip():
            return node.value
        self.report(node.location, f"{what} is {_form(node)}", "give it a text")
        return None

    def identifier(self, node: Node, what: str) -> str | None:
        """Read a text that is an identifier, so that C++ and Markdown can hold it as it is."""
        value = self.text(node, what)
        if value is not None and not _IDENTIFIER.fullmatch(value):
            self.report(node.location, f"{what} '{value}' is no identifier", "use letters, digits and '_'")
            return None
        return value

    def name(self, node: Node, what: str, known: Iterable[str]) -> str | None:
        """Read a known name."""
        names = list(known)
        value = self.text(node, what)
        if value is not None and value not in names:
            self.report_unknown(node.location, f"unknown {what} '{value}'", value, names)
            return None
        return value

    def texts(self, node: Node, what: str) -> list[Text]:
        """Read a list of different texts."""
        if not isinstance(node, Sequence) or not node.items:
            self.report(node.location, f"{what} is {_form(node)}", "give it a list of names, as in [one, two]")
            return []
        texts: dict[str, Text] = {}
        for item in node.items:
            if not isinstance(item, Text) or not item.value.strip():
                self.report(item.location, f"{what} holds {_form(item)}", "give it names only")
            elif item.value in texts:
                self.report(item.location, f"{what} names '{item.value}' twice", "keep one of them")
            else:
                texts[item.value] = item
        return list(texts.values())

    def dotted(self, node: Node, what: str) -> list[Text]:
        """Read a list of different names, which are identifiers with dots between them."""
        found = []
        for text in self.texts(node, what):
            if all(_IDENTIFIER.fullmatch(part) for part in text.value.split(".")):
                found.append(text)
            else:
                self.report(text.location, f"{what} holds '{text.value}'", "write it as in Python, with dots")
        return found

    def entries(self, node: Node, what: str) -> Iterator[tuple[Text, Node]]:
        """Read a mapping with any keys."""
        if not isinstance(node, Mapping) or not node.items:
            self.report(node.location, f"{what} is {_form(node)}", "give it a mapping, as in {name: value}")
            return
        yield from node.items

    def fields(
        self, node: Node, what: str, known: tuple[str, ...], required: tuple[str, ...]
    ) -> dict[str, Node] | None:
        """Read a mapping with known keys; None if it is no mapping or lacks a required key."""
        if not isinstance(node, Mapping):
            self.report(
                node.location, f"{what} is {_form(node)}", f"give it a mapping with the keys {', '.join(known)}"
            )
            return None
        found: dict[str, Node] = {}
        for index, (key, value) in enumerate(node.items):
            if key.value in known:
                found[key.value] = value
                continue
            problem = f"unknown key '{key.value}' of {what}"
            # In braces a comma ends a text. The words after it are then a key without a value.
            before = node.items[index - 1][0].value if index else None
            if before in known and value == Text("", value.location) and closest(key.value, known) is None:
                self.report(
                    key.location, problem, f"put the text of '{before}' in quotes if it goes on after the comma"
                )
            else:
                self.report_unknown(key.location, problem, key.value, known)
        missing = [name for name in required if name not in found]
        for name in missing:
            self.report(node.location, f"{what} has no '{name}'", "add it")
        return None if missing else found


def _form(node: Node) -> str:
    if isinstance(node, Text):
        return f"the text '{node.value}'" if node.value.strip() else "empty"
    kind = "list" if isinstance(node, Sequence) else "mapping"
    return f"a {kind}" if node.items else f"an empty {kind}"
