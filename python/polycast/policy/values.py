"""Python values as nodes of the grammar. The place of a node is the path to its value."""

from collections.abc import Mapping as Dict
from typing import Any

import torch

from polycast import backends
from polycast._grammar.errors import Location, Problem
from polycast._grammar.nodes import MAX_DEPTH, Mapping, Node, Sequence, Text
from polycast.policy import operators


def nodes_of(rules: Dict[str, object], problems: list[Problem]) -> Mapping:
    """Return a policy's dict as nodes. A value that is no text, list or mapping is reported and left out."""
    return _Builder(problems).mapping(rules, "", ())


class _Builder:
    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.count = 0

    def mapping(self, values: Dict[Any, object], path: str, outer: tuple[int, ...]) -> Mapping:
        place = self.place(path)
        items: list[tuple[Text, Node]] = []
        seen: set[str] = set()
        for key, value in values.items():
            name = _text(key)
            if name is None and path in ("", "ops"):
                name = operators.name_of(key)
            part = f"<{_kind(key)}>" if name is None else name or "''"
            where = self.place(f"{path}.{part}" if path else part)
            if name is None:
                remedy = "use a text" if path else "use the name of an op, or torch's function or class that runs it"
                self.report(where, f"a key of type {_kind(key)}", remedy)
            elif name in seen:
                self.report(where, f"duplicate key '{name}'", "keep one of them")
            elif (node := self.node(value, where.path, (*outer, id(values)))) is not None:
                items.append((Text(name, where), node))
                seen.add(name)
        return Mapping(tuple(items), place)

    def node(self, value: object, path: str, outer: tuple[int, ...]) -> Node | None:
        """Return a value as a node; None if it has no such form, or nothing that it holds has one."""
        place, text = self.place(path), _text(value)
        if text is not None:
            if not any("\ud800" <= character <= "\udfff" for character in text):
                return Text(text, place)
            self.report(place, f"{text!r} holds half a character", "remove it")
        elif not isinstance(value, Dict | list | tuple):
            what = f"a value of type {_kind(value)}"
            self.report(place, what, "give it a category, or a mapping of devices to categories")
        elif id(value) in outer or len(outer) > MAX_DEPTH:
            self.report(place, f"nested deeper than {MAX_DEPTH} levels", "flatten it")
        else:
            node = self.inner(value, path, outer)
            return node if node.items or not value else None
        return None

    def inner(
        self, values: Dict[Any, object] | list[object] | tuple[object, ...], path: str, outer: tuple[int, ...]
    ) -> Mapping | Sequence:
        if isinstance(values, Dict):
            return self.mapping(values, path, outer)
        place, inside = self.place(path), (*outer, id(values))
        nodes = [self.node(value, f"{path}[{index}]", inside) for index, value in enumerate(values)]
        return Sequence(tuple(node for node in nodes if node is not None), place)

    def place(self, path: str) -> Location:
        """Return the place of a path. Places sort in the order in which they are made."""
        self.count += 1
        return Location("Policy", self.count, 0, path)

    def report(self, location: Location, what: str, remedy: str) -> None:
        self.problems.append(Problem(location, what, remedy))


def _text(value: object) -> str | None:
    """Return the text that stands for a value in a policy."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.device):
        return backends.device_of(value.type) if value.type in backends.device_types() else value.type
    return str.__str__(value) if isinstance(value, str) else None


def _kind(value: object) -> str:
    return type(value).__name__
