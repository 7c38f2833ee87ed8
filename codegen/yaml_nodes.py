"""YAML as nodes that keep their places, and the problems of a file, each with its place and remedy.

Every scalar is text: `on`, `1.0` and `~` stay as the author typed them. A key that is there twice is a problem.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import yaml

# The parser in Python takes most of a second for policy.yaml.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEPTH = 16


@dataclass(frozen=True, order=True)
class Location:
    """A place in a file, with line and column from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong, and its remedy."""

    location: Location
    what: str
    remedy: str

    def __str__(self) -> str:
        """Return the problem as one line. Characters that cannot be printed are escaped."""
        line = f"{self.location}: error: {self.what}; {self.remedy}"
        return "".join(character if character.isprintable() else repr(character)[1:-1] for character in line)


class PolicyError(ValueError):
    """All problems of a policy, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(set(problems))
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


@dataclass(frozen=True)
class Text:
    """A scalar, as the author typed it."""

    value: str
    location: Location


@dataclass(frozen=True)
class Sequence:
    """A list of nodes."""

    items: tuple["Node", ...]
    location: Location


@dataclass(frozen=True)
class Mapping:
    """A mapping with text keys, each of which is there once."""

    items: tuple[tuple[Text, "Node"], ...]
    location: Location


Node = Text | Sequence | Mapping


def load(path: Path, name: str) -> Node:
    """Return the root node of the file at `path`, which problems call `name`.

    Raises:
        PolicyError: It cannot be read, is no YAML, or has a key twice.
    """
    start = Location(name)
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=LOADER)
    except UnicodeDecodeError as error:
        place = Location(name, error.object[: error.start].count(b"\n") + 1)
        raise PolicyError([Problem(place, "not UTF-8 text", "save it as UTF-8")]) from None
    except OSError as error:
        raise PolicyError([Problem(start, f"cannot be read: {error.strerror}", "name a readable file")]) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = Location(name, mark.line + 1, mark.column + 1) if mark else start
        text = getattr(error, "problem", None) or getattr(error, "reason", error)
        raise PolicyError([Problem(place, f"broken YAML: {text}", "fix the syntax here")]) from None
    if root is None:
        raise PolicyError([Problem(start, "the file is empty", "give it the key ops at least")])
    problems: list[Problem] = []
    node = _node(root, name, problems, 0)
    if problems:
        raise PolicyError(problems)
    return node


def _node(node: yaml.Node, name: str, problems: list[Problem], depth: int) -> Node:
    place = Location(name, node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.ScalarNode):
        return Text(node.value, place)
    if depth > _DEPTH:  # also what an alias holds of itself
        raise PolicyError([Problem(place, f"nested deeper than {_DEPTH} levels", "flatten it")])
    if isinstance(node, yaml.SequenceNode):
        return Sequence(tuple(_node(item, name, problems, depth + 1) for item in node.value), place)
    return Mapping(tuple(_pairs(node, name, problems, depth + 1)), place)


def _pairs(node: yaml.Node, name: str, problems: list[Problem], depth: int) -> Iterator[tuple[Text, Node]]:
    seen: set[str] = set()
    for key_node, value in node.value:
        key = _node(key_node, name, problems, depth)
        if not isinstance(key, Text):
            problems.append(Problem(key.location, "a key that is not text", "use a plain word as key"))
        elif key.value in seen:
            problems.append(Problem(key.location, f"duplicate key '{key.value}'", "keep one of them"))
        else:
            seen.add(key.value)
            yield key, _node(value, name, problems, depth)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a remedy for an unknown name: the closest known name, or all known names if they are few."""
    names = sorted(set(known))
    if near := get_close_matches(name, names, n=1):
        return f"did you mean '{near[0]}'?"
    return f"use one of {', '.join(names)}" if 0 < len(names) <= 20 else "check the spelling"
