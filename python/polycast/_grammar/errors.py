"""Problems of a policy: the place, what is wrong, and the remedy."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, order=True)
class Location:
    """A place in a file, with line and column from 1. In a Python value it is a path, and `line` orders the paths."""

    file: str
    line: int
    column: int
    path: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.path}" if self.path else f"{self.file}:{self.line}:{self.column}"


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


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most likely meant; None if none is similar.

    That is the shortest name that begins with the given one, else the most similar one. Case does not count.
    """
    names = {other.lower(): other for other in sorted(set(known))}
    longer = [other for other in names if len(name) > 2 and other.startswith(name.lower())]
    similar = [min(longer, key=len)] if longer else get_close_matches(name.lower(), names, n=1)
    return names[similar[0]] if similar else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a remedy for an unknown name: the closest known name, or all known names if they are few."""
    names = sorted(set(known))
    close = closest(name, names)
    if close is not None:
        return f"did you mean '{close}'?"
    return f"use one of {', '.join(names)}" if 0 < len(names) <= 20 else "check the spelling"
