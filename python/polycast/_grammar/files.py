"""YAML files as nodes that keep their place.

Every scalar is text: `on`, `1.0` and `~` stay what the author typed. Tags, anchors and aliases have no use in a policy
and are refused, so nothing is constructed and nothing multiplies. A key that stands twice is an error.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import yaml

from .errors import Location, PolicyError, Problem
from .nodes import MAX_DEPTH, Mapping, Node, Sequence, Text

# The parser in Python takes most of a second for policy.yaml.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_BYTES = 4 << 20

_LINE_END = re.compile("[\n\x85\u2028\u2029]")  # what the parser counts as one; Python has read \r as \n


def load(path: Path, name: str, problems: list[Problem], key: str = "ops") -> Node | None:
    """Return the root node of the file at `path`, which problems call `name`; None if it is no YAML.

    An empty file is told to have `key`.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            problems.append(Problem(Location(name, 1, 1), f"larger than {MAX_BYTES >> 20} MiB", "make it smaller"))
            return None
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        problems.append(Problem(Location(name, line, 1), "not UTF-8 text", "save it as UTF-8"))
        return None
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        problems.append(Problem(Location(name, 1, 1), f"cannot be read: {reason}", "name a readable file"))
        return None
    try:
        return _Composer(text, name, problems, key).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Location(name, mark.line + 1, mark.column + 1) if mark else Location(name, 1, 1)
        problems.append(Problem(place, f"broken YAML: {error.problem or error.context}", "mend the syntax here"))
    except yaml.reader.ReaderError as error:
        before = text[: text.index(chr(error.character))]  # its position counts bytes or characters, as the parser does
        lines = _LINE_END.split(before)
        place = Location(name, len(lines), len(lines[-1]) + 1)
        problems.append(Problem(place, f"broken YAML: {error.reason}", "remove the character"))
    except PolicyError as error:
        problems.extend(error.problems)
    return None


class _Composer:
    """Builds nodes from the parser's events."""

    def __init__(self, text: str, name: str, problems: list[Problem], key: str) -> None:
        self.events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=LOADER))
        self.name = name
        self.problems = problems
        self.key = key

    def document(self) -> Node:
        next(self.events)  # the start of the stream
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            self.stop(event, "the file is empty", f"give it the key {self.key} at least")
        root = self.node(next(self.events), 0)
        next(self.events)  # the end of the document
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            self.stop(event, "a second YAML document", "remove it, and the '---' before it")
        return root

    def node(self, event: yaml.Event, depth: int) -> Node:
        if isinstance(event, yaml.AliasEvent):
            self.stop(event, f"an alias, *{event.anchor}", "write the value out")
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)  # all that can start a node
        if event.anchor is not None:
            self.stop(event, f"an anchor, &{event.anchor}", "remove it")
        if event.tag is not None:
            self.stop(event, f"a tag, {event.tag}", "remove it; every value is text")
        if depth > MAX_DEPTH:
            self.stop(event, f"nested deeper than {MAX_DEPTH} levels", "flatten it")
        place = self.place(event)
        if isinstance(event, yaml.ScalarEvent):
            return Text(event.value, place)
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
                items.append(self.node(event, depth + 1))
            return Sequence(tuple(items), place)
        return Mapping(tuple(self.pairs(depth + 1)), place)

    def pairs(self, depth: int) -> Iterator[tuple[Text, Node]]:
        seen: dict[str, Location] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.node(event, depth)
            value = self.node(next(self.events), depth)
            if not isinstance(key, Text):
                self.report(key.location, "a key that is not text", "use a plain word as key")
            elif key.value in seen:
                what = f"duplicate key '{key.value}', first on line {seen[key.value].line}"
                self.report(key.location, what, "keep one of them")
            else:
                seen[key.value] = key.location
                yield key, value

    def place(self, event: yaml.Event) -> Location:
        mark = event.start_mark
        return Location(self.name, mark.line + 1, mark.column + 1) if mark else Location(self.name, 1, 1)

    def report(self, location: Location, what: str, remedy: str) -> None:
        self.problems.append(Problem(location, what, remedy))

    def stop(self, event: yaml.Event, what: str, remedy: str) -> NoReturn:
        raise PolicyError([Problem(self.place(event), what, remedy)])
