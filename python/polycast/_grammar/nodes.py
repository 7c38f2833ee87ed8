"""Nodes of a policy, which keep their place."""

from dataclasses import dataclass

from .errors import Location

MAX_DEPTH = 16


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
    """A mapping with text keys, each of which stands once."""

    items: tuple[tuple[Text, "Node"], ...]
    location: Location


Node = Text | Sequence | Mapping
