"""'Did you mean', for names that a user mistyped."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that offers the closest known name, empty where none is close."""
    close = get_close_matches(name, sorted(set(known)), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
