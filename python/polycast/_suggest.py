"""'Did you mean' for mistyped names."""

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

_SHOWN = 4  # how many names are suggested at most


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are most likely meant, the likeliest first. Case does not count.

    Those are the shortest names that begin with the given one, or else the most similar ones. Names that begin or end
    with "_" are meant only if the given one does.

    Example:
        >>> from polycast._suggest import nearest
        >>> nearest("conv", ["conv2d", "conv3d", "convolution"]), nearest("gleu", ["glu", "gelu", "relu"])
        (['conv2d', 'conv3d'], ['glu', 'gelu'])
    """
    asked = name.lower()
    names = {other.lower(): other for other in sorted(set(known)) if _ends(other) <= _ends(asked)}
    longer = [other for other in names if len(name) > 2 and other.startswith(asked)]
    if longer:
        return [names[other] for other in longer if len(other) == min(map(len, longer))][:_SHOWN]
    similar = {_last(other): other for other in reversed(get_close_matches(asked, names, n=_SHOWN))}
    ratios = {last: SequenceMatcher(None, last, _last(asked)).ratio() for last in similar}
    return [
        names[other]
        for last, other in reversed(similar.items())
        if ratios[last] == max(ratios.values()) or sorted(last) == sorted(_last(asked))
    ]


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


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the closest known names, or "" if none is close."""
    near = nearest(name, known)
    return f"; {did_you_mean(name, near)}" if near else ""


def _ends(name: str) -> set[str]:
    last = _last(name)
    return {side for side, end in (("first", last[:1]), ("last", last[-1:])) if end == "_"}


def _last(name: str) -> str:
    return name.rpartition(".")[2]
