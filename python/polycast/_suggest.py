"""'Did you mean' for mistyped names."""

from collections.abc import Iterable

from polycast._grammar.errors import did_you_mean, nearest


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the closest known names, or "" if none is close."""
    near = nearest(name, known)
    return f"; {did_you_mean(name, near)}" if near else ""
