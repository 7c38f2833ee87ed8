"""The nodes of a YAML file with their locations, and the problems of a file, each with its location and remedy.

Every scalar is a string: `on`, `1.0` and `~` are read as typed. A duplicate key is a problem.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import TypeAlias

import yaml

# The Python loader, `yaml.SafeLoader`, takes almost a second to read `policy.yaml`.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEPTH = 16


@dataclass(frozen=True, order=True)
class Location:
    """A location in a file. Line and column start at 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, order=True)
class Problem:
    """One problem of a file, with its location and remedy."""

    location: Location
    what: str
    remedy: str

    def __str__(self) -> str:
        """Return the problem as one line, in which characters that cannot be printed are escaped."""
        line = f"{self.location}: error: {self.what}; {self.remedy}"
        return "".join(character if character.isprintable() else repr(character)[1:-1] for character in line)


class PolicyError(ValueError):
    """All problems of a policy, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(set(problems))

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


Node: TypeAlias = yaml.Node
Text: TypeAlias = yaml.ScalarNode
Sequence: TypeAlias = yaml.SequenceNode
Mapping: TypeAlias = yaml.MappingNode


def location(node: Node) -> Location:
    """Return the location where a node begins."""
    mark = node.start_mark
    return Location(mark.name, mark.line + 1, mark.column + 1)


def renamed(node: Text, text: str) -> Text:
    """Return a scalar with another string at the same location."""
    return Text(node.tag, text, node.start_mark, node.end_mark)


def load(path: Path, name: str) -> Node:
    """Return the root node of a file.

    Args:
        path: The path of the YAML file.
        name: The name of the file in messages.

    Raises:
        PolicyError: If the file cannot be read, is empty or not valid YAML, or has keys or nesting that is not allowed.
    """
    place = Location(name)
    try:
        stream = StringIO(path.read_text(encoding="utf-8"))
        stream.name = name  # the marks of the nodes contain this name
        root = yaml.compose(stream, Loader=LOADER)
    except UnicodeDecodeError as error:
        place = Location(name, error.object[: error.start].count(b"\n") + 1)
        what, remedy = "expected UTF-8 text, got other bytes", "save the file as UTF-8"
    except OSError as error:
        what, remedy = f"the file cannot be read: {error.strerror}", "name a readable file"
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = Location(name, mark.line + 1, mark.column + 1) if mark else place
        parts = (getattr(error, part, None) for part in ("context", "problem", "reason"))
        what, remedy = f"expected valid YAML, got an error: {', '.join(filter(None, parts))}", "correct this line"
    else:
        if root is not None:
            if problems := list(_check(root)):
                raise PolicyError(problems)
            return root
        what, remedy = "expected a mapping, got an empty file", "use the keys devices, categories and ops"
    raise PolicyError([Problem(place, what, remedy)])


def _check(node: Node, depth: int = 0) -> Iterator[Problem]:
    """Yield a problem for each key that is a duplicate or not a string. Raise a PolicyError if nesting is too deep."""
    if depth > _DEPTH and not isinstance(node, Text):  # An alias may contain itself.
        raise PolicyError([Problem(location(node), f"expected at most {_DEPTH} nested levels, got more", "use fewer")])
    for item in node.value if isinstance(node, Sequence) else ():
        yield from _check(item, depth + 1)
    seen: set[str] = set()
    for key, value in node.value if isinstance(node, Mapping) else ():
        if not isinstance(key, Text):
            yield Problem(location(key), "expected a name as the key, got a list or a mapping", "write a name")
        elif key.value in seen:
            yield Problem(location(key), f"expected different keys, got '{key.value}' twice", "remove one of them")
        else:
            seen.add(key.value)
            yield from _check(value, depth + 1)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a remedy for an unknown name: the closest known name, up to 20 known names, or a hint."""
    names = {other.lower(): other for other in sorted(known)}
    if near := get_close_matches(name.lower(), names, n=1):
        return f"did you mean '{names[near[0]]}'?"
    if len(names) == 1:
        return f"use '{next(iter(names.values()))}'"
    return f"use one of {', '.join(names.values())}" if 0 < len(names) <= 20 else "check the spelling"
