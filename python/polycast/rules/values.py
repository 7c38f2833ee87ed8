"""Python values as nodes of the grammar; the place of each is the path to it."""

from collections.abc import Mapping as Dict
from typing import Any

import torch

from polycast import backends
from polycast.grammar.errors import Location, Problem
from polycast.grammar.nodes import MAX_DEPTH, Mapping, Node, Sequence, Text


def nodes_of(rules: Dict[str, object], problems: list[Problem]) -> Mapping:
    """Return the rules as nodes; what is no text, list or mapping is reported and left out."""
    return _Builder(problems).mapping(rules, "", ())


class _Builder:
    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.count = 0

    def mapping(self, values: Dict[Any, object], path: str, outer: tuple[int, ...]) -> Mapping:
        place = self.place(path)
        items: list[tuple[Text, Node]] = []
        for key, value in values.items():
            name = _text(key)
            where = self.place(_below(path, repr(key) if name is None else name))
            if name is None:
                self.report(where, f"the key {_shown(key)}", "use a text")
            elif name in [other.value for other, _ in items]:
                self.report(where, f"duplicate key '{name}'", "keep one of them")
            elif (node := self.node(value, where.path, (*outer, id(values)))) is not None:
                items.append((Text(name, where), node))
        return Mapping(tuple(items), place)

    def node(self, value: object, path: str, outer: tuple[int, ...]) -> Node | None:
        place, text = self.place(path), _text(value)
        if text is not None:
            if any("\ud800" <= character <= "\udfff" for character in text):
                self.report(place, f"{text!r} holds half a character", "remove it")
                return None
            return Text(text, place)
        if not isinstance(value, Dict | list | tuple):
            self.report(place, f"{_shown(value)} says nothing of an op", "name a category, or give devices with theirs")
            return None
        if id(value) in outer or len(outer) > MAX_DEPTH:
            self.report(place, f"nested deeper than {MAX_DEPTH} levels", "flatten it")
            return None
        if isinstance(value, Dict):
            return self.mapping(value, path, outer)
        nodes = [self.node(item, f"{path}[{index}]", (*outer, id(value))) for index, item in enumerate(value)]
        sound = tuple(node for node in nodes if node is not None)
        return Sequence(sound, place) if sound or not nodes else None

    def place(self, path: str) -> Location:
        """Return a place that comes after all earlier ones where problems are sorted."""
        self.count += 1
        return Location("Policy", self.count, 0, path)

    def report(self, location: Location, what: str, remedy: str) -> None:
        self.problems.append(Problem(location, what, remedy))


def _text(value: object) -> str | None:
    """Return the text that stands for a value in a policy."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.device):
        return backends.column(value.type) if value.type in backends.types() else value.type
    return str(value) if isinstance(value, str) else None


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
