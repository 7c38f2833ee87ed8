"""Ranges of PyTorch releases: [first, end), where a release is (major, minor)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

Version = tuple[int, int]

_CLAUSE = re.compile(r"(>=|<)\s*(\d{1,3})\.(\d{1,3})\s*", re.ASCII)


@dataclass(frozen=True, order=True)
class VersionRange:
    """The releases from `first`, included, to `end`, excluded. None means no limit."""

    first: Version | None = None
    end: Version | None = None

    def __contains__(self, release: Version) -> bool:
        return (self.first is None or release >= self.first) and (self.end is None or release < self.end)

    def __and__(self, other: "VersionRange") -> "VersionRange":
        firsts = [r.first for r in (self, other) if r.first is not None]
        ends = [r.end for r in (self, other) if r.end is not None]
        return VersionRange(max(firsts, default=None), min(ends, default=None))

    @property
    def empty(self) -> bool:
        return self.first is not None and self.end is not None and self.first >= self.end

    def __str__(self) -> str:
        """Return the range as a PEP 440 specifier, which is empty for all releases."""
        first = f">={self.first[0]}.{self.first[1]}" if self.first else ""
        end = f"<{self.end[0]}.{self.end[1]}" if self.end else ""
        return ",".join(filter(None, (first, end)))


ALL = VersionRange()
# The package can be built for these releases.
SUPPORTED = VersionRange(first=(2, 9))


def parse_range(specifier: str) -> VersionRange | None:
    """Return the range of a specifier such as `>=2.9,<2.13`. Return None for another form, or if the range is empty."""
    result = ALL
    for clause in specifier.split(","):
        match = _CLAUSE.fullmatch(clause.strip())
        if match is None:
            return None
        release = (int(match[2]), int(match[3]))
        result &= VersionRange(first=release) if match[1] == ">=" else VersionRange(end=release)
    return None if result.empty else result


def subtract(whole: VersionRange, parts: Iterable[VersionRange]) -> list[VersionRange]:
    """Return the ranges of `whole` that no part covers."""
    left = [whole]
    for part in parts:
        outside = [VersionRange(None, part.first)] if part.first else []
        outside += [VersionRange(part.end, None)] if part.end else []
        left = [piece & side for piece in left for side in outside if not (piece & side).empty]
    return left
