"""'Did you mean', for names that a user mistyped."""

from collections.abc import Iterable

from polycast.grammar.errors import closest


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that offers the closest known name, empty where none is close."""
    close = closest(name, known)
    return "" if close is None else f"; did you mean '{close}'?"
