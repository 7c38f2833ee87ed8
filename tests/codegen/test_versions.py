"""Ranges of torch releases."""

import pytest
from polycast._grammar.versions import VersionRange, parse_range, subtract


def _range(specifier: str) -> VersionRange:
    found = parse_range(specifier) if specifier else VersionRange()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("specifier", "expected"),
    [
        (">=2.10", VersionRange((2, 10), None)),
        ("<2.13", VersionRange(None, (2, 13))),
        (">=2.10,<2.13", VersionRange((2, 10), (2, 13))),
        (" < 2.13 , >= 2.10 ", VersionRange((2, 10), (2, 13))),
        (">=2.10,>=2.12", VersionRange((2, 12), None)),
        ("<3.0,<2.13", VersionRange(None, (2, 13))),
        *((specifier, None) for specifier in ("", "2.10", "==2.10", ">2.10", "<=2.10", "!=2.10", "~=2.10", ">=2")),
        *((specifier, None) for specifier in (">=2.10.1", ">=2.10rc1", ">=2.x", ">=2.10,", ">=2.10 <2.13", "new")),
        *((specifier, None) for specifier in (">=2.13,<2.10", ">=2.10,<2.10")),  # no release at all
        *((specifier, None) for specifier in (">=2.1000", f"<2.{'9' * 5000}", ">=2.٣")),  # no release of torch's
    ],
)
def test_a_specifier_is_read(specifier: str, expected: VersionRange | None) -> None:
    assert parse_range(specifier) == expected


@pytest.mark.parametrize("specifier", ["", ">=2.10", "<2.13", ">=2.10,<2.13"])
def test_a_range_prints_as_it_was_read(specifier: str) -> None:
    assert str(_range(specifier)) == specifier


@pytest.mark.parametrize(
    ("specifier", "inside", "outside"),
    [
        ("", [(1, 0), (2, 9), (99, 0)], []),
        (">=2.10", [(2, 10), (2, 11), (3, 0)], [(1, 99), (2, 9)]),
        ("<2.10", [(1, 99), (2, 2), (2, 9)], [(2, 10), (3, 0)]),
        (">=2.10,<3.0", [(2, 10), (2, 99)], [(2, 9), (3, 0)]),
    ],
)
def test_a_range_contains_its_releases(
    specifier: str, inside: list[tuple[int, int]], outside: list[tuple[int, int]]
) -> None:
    assert [release in _range(specifier) for release in inside + outside] == [True] * len(inside) + [False] * len(
        outside
    )


@pytest.mark.parametrize(
    ("one", "other", "both", "hull"),
    [
        ("", "", "", ""),
        ("", ">=2.10", ">=2.10", ""),
        (">=2.10", "<2.13", ">=2.10,<2.13", ""),
        (">=2.10", ">=2.12", ">=2.12", ">=2.10"),
        ("<2.10", "<2.12", "<2.10", "<2.12"),
        (">=2.9,<2.11", ">=2.10,<2.13", ">=2.10,<2.11", ">=2.9,<2.13"),
        ("<2.10", ">=2.10", None, ""),
        (">=2.9,<2.10", ">=2.12,<2.13", None, ">=2.9,<2.13"),
    ],
)
def test_ranges_combine(one: str, other: str, both: str | None, hull: str) -> None:
    a, b = _range(one), _range(other)
    assert (a & b) == (b & a)
    assert (None if (a & b).empty else str(a & b)) == both
    assert str(a | b) == str(b | a) == hull


@pytest.mark.parametrize(
    ("whole", "parts", "rest"),
    [
        ("", [], [""]),
        ("", [""], []),
        ("", [">=2.10"], ["<2.10"]),
        ("", ["<2.10"], [">=2.10"]),
        ("", [">=2.10,<2.13"], ["<2.10", ">=2.13"]),
        ("", [">=2.13", "<2.10"], [">=2.10,<2.13"]),
        ("", [">=2.10", "<2.10"], []),
        (">=2.10", ["<2.10"], [">=2.10"]),
        (">=2.10", [">=2.9"], []),
        (">=2.9,<2.13", [">=2.10,<2.11"], [">=2.9,<2.10", ">=2.11,<2.13"]),
        (">=2.9,<2.13", [">=2.10,<2.11", ">=2.11,<2.12"], [">=2.9,<2.10", ">=2.12,<2.13"]),
        (">=2.9,<2.10", [">=2.12,<2.13"], [">=2.9,<2.10"]),
    ],
)
def test_what_is_left_of_a_range(whole: str, parts: list[str], rest: list[str]) -> None:
    assert [str(part) for part in subtract(_range(whole), map(_range, parts))] == rest
