"""Suggestions for mistyped names."""

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is closest to a name, or None. Case is ignored.

    A known name that begins with the given name is preferred if the given name has at least three characters.

    Example:
        >>> from polycast._suggest import closest
        >>> closest("con", ["cov", "conv2d"]), closest("gleu", ["glu", "relu"]), closest("nonsense", ["glu", "relu"])
        ('conv2d', 'glu', None)
    """
    asked, names = name.lower(), {other.lower(): other for other in sorted(known)}
    longer = [other for other in names if len(name) > 2 and other.startswith(asked)]
    near = [min(longer, key=len)] if longer else get_close_matches(asked, names, 1, 0.7)
    return names[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: a known name, up to 20 known names, or the advice to check the spelling."""
    names = list(dict.fromkeys(known))
    if near := closest(name, names) or (names[0] if len(names) == 1 else None):
        return f"did you mean '{near}'?"
    return f"use one of {', '.join(names)}" if 0 < len(names) <= 20 else "check the spelling"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the closest known name, or "" if none is close."""
    near = closest(name, known)
    return "" if near is None else f"; did you mean '{near}'?"
