"""Ranges of PyTorch releases, such as ``>=2.10,<2.13``."""

from itertools import pairwise, product

import pytest

from codegen.versions import ALL, Version, VersionRange, parse_range, subtract

RELEASES = [(1, 99), (2, 2), (2, 9), (2, 10), (2, 13), (3, 0), (99, 0)]
ENDS = (None, (2, 9), (2, 10), (2, 13))
RANGES = [VersionRange(*ends) for ends in product(ENDS, ENDS) if None in ends or ends[0] < ends[1]]  # type: ignore[operator]


def inside(*ranges: VersionRange) -> set[Version]:
    """Return the releases that are in one of the ranges."""
    return {
        release
        for release in RELEASES
        for one in ranges
        if (one.first is None or one.first <= release) and (one.end is None or release < one.end)
    }


@pytest.mark.parametrize(
    ("specifier", "expected"),
    [
        (">=2.10", VersionRange((2, 10), None)),
        (" < 2.13 , >= 2.10 ", VersionRange((2, 10), (2, 13))),
        (">=2.10,>=2.12", VersionRange((2, 12), None)),
        ("<3.0,<2.13", VersionRange(None, (2, 13))),
        *((specifier, None) for specifier in ("", "2.10", ">2.10", "<=2.10", ">=2", ">=2.10.1", ">=2.10,", "new")),
        (">=2.10,<2.10", None),  # This range is empty.
        *((specifier, None) for specifier in (">=2.1000", f"<2.{'9' * 5000}", ">=2.٣")),  # PyTorch has no such release.
    ],
)
def test_a_specifier_is_parsed(specifier: str, expected: VersionRange | None) -> None:
    assert parse_range(specifier) == expected


@pytest.mark.parametrize("one", RANGES, ids=lambda one: str(one) or "all")
def test_ranges_are_sets_of_releases(one: VersionRange) -> None:
    """A range behaves like a set of releases, and parsing its text returns an equal range."""
    assert {release for release in RELEASES if release in one} == inside(one)
    assert (parse_range(str(one)) if str(one) else ALL) == one
    for other in RANGES:
        assert inside(one & other) == inside(one) & inside(other)
        assert (one & other).empty == (not inside(one) & inside(other))
    for others in product(RANGES, RANGES):
        rest = list(subtract(one, others))
        assert inside(*rest) == inside(one) - inside(*others)
        assert all(before.end < after.first for before, after in pairwise(rest))  # type: ignore[operator]
