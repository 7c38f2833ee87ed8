"""Problems of a policy: the place, what is wrong, and the remedy."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches

_SHOWN = 4  # how many names are suggested at most


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


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are most likely meant, the likeliest first. Case does not count.

    Those are the shortest names that begin with the given one, else the most similar ones and those that have the same
    letters in another order. Names that begin or end with "_" are meant only if the given one does, too.

    Example:
        >>> from polycast._grammar.errors import nearest
        >>> nearest("conv", ["conv2d", "conv3d", "convolution"]), nearest("gleu", ["glu", "gelu", "relu"])
        (['conv2d', 'conv3d'], ['glu', 'gelu'])
    """
    asked = name.lower()
    names = {other.lower(): other for other in sorted(set(known)) if _ends(other) <= _ends(asked)}
    longer = [other for other in names if len(name) > 2 and other.startswith(asked)]
    if longer:
        return [names[other] for other in longer if len(other) == min(map(len, longer))][:_SHOWN]
    similar = {_last(other): other for other in reversed(get_close_matches(asked, names, n=_SHOWN))}
    ratios = {other: SequenceMatcher(None, last, _last(asked)).ratio() for last, other in similar.items()}
    return [
        names[other]
        for last, other in reversed(similar.items())
        if ratios[other] == max(ratios.values()) or sorted(last) == sorted(_last(asked))
    ]


def _ends(name: str) -> set[str]:
    last = _last(name)
    return {side for side, end in (("first", last[:1]), ("last", last[-1:])) if end == "_"}


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most likely meant; None if none is similar."""
    return next(iter(nearest(name, known)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a remedy for an unknown name: the closest known names, or all known names if they are few."""
    names = sorted(set(known))
    near = [f"'{other}'" for other in nearest(name, names)]
    if near:
        *first, last = near
        return f"did you mean {', '.join(first)} or {last}?" if first else f"did you mean {last}?"
    return f"use one of {', '.join(names)}" if 0 < len(names) <= 20 else "check the spelling"
