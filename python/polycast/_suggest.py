"""'Did you mean' for mistyped names."""

from collections.abc import Iterable

from polycast._grammar.errors import closest


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the closest known name, or "" if none is close."""
    close = closest(name, known)
    return "" if close is None else f"; did you mean '{close}'?"
