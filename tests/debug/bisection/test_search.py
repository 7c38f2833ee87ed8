"""The search finds every hidden set of culprits, in few runs, on programs that are drawn at random."""

import math
import random
from collections.abc import Callable, Sequence

import pytest
from polycast.debug.bisection.search import minimal_sets

from tests.support.properties import TIMES

SEEDS = range(30 * TIMES)
SIZES = {
    "one": [1],
    "a pair": [2],
    "three together": [3],
    "two alone": [1, 1],
    "a pair and one alone": [2, 1],
    "two pairs": [2, 2],
    "five alone": [1] * 5,
}


class Runs:
    """Counts the runs of a program that is bad if all switches of any culprit are as in "bad"."""

    def __init__(self, is_bad: Callable[[frozenset[int]], bool]) -> None:
        self._is_bad = is_bad
        self.seen: dict[frozenset[int], bool] = {}

    def __call__(self, switches: Sequence[int], among: int) -> bool:
        assert among
        assert len({*switches}) == len(switches)
        key = frozenset(switches)
        if key not in self.seen:
            self.seen[key] = self._is_bad(key)
        return self.seen[key]


def hidden(seed: int, count: int, sizes: list[int]) -> list[list[int]]:
    """Return sets of switches that share none."""
    left = random.Random(seed).sample(range(count), sum(sizes))
    return sorted(sorted(left.pop() for _ in range(size)) for size in sizes)


@pytest.mark.parametrize("name", SIZES)
def test_every_hidden_set_is_found_in_few_runs(name: str) -> None:
    for seed in SEEDS:
        count = random.Random(seed).choice([5, 64, 300])
        culprits = hidden(seed, count, SIZES[name])
        runs = Runs(lambda bad, culprits=culprits: any(bad.issuperset(one) for one in culprits))  # type: ignore[misc]
        assert sorted(minimal_sets(range(count), runs)) == culprits
        # For each culprit: a binary search, a run for it alone, and one without it.
        most = 1 + sum(1 + (math.ceil(math.log2(count)) + 2) * len(one) for one in culprits)
        assert len(runs.seen) <= most


def test_what_is_found_is_minimal_also_where_more_switches_make_it_good_again() -> None:
    for seed in SEEDS:
        draw = random.Random(seed)
        culprits = hidden(seed, 40, [1, 2, 3])
        mended = {frozenset(draw.sample(range(40), draw.randrange(1, 40))) for _ in range(200)}

        def is_bad(
            bad: frozenset[int], culprits: list[list[int]] = culprits, mended: set[frozenset[int]] = mended
        ) -> bool:
            return len(bad) == 40 or (bad not in mended and any(bad.issuperset(one) for one in culprits))

        for group in minimal_sets(range(40), Runs(is_bad)):
            assert is_bad(frozenset(group))
            assert not any(is_bad(frozenset(group) - {switch}) for switch in group)


def test_a_run_that_cannot_be_tested_hides_nothing() -> None:
    # Such a run is not seen to be bad.
    apart = Runs(lambda bad: 5 in bad and len(bad & {4, 5, 6}) == 3)
    assert [*minimal_sets(range(16), apart)] == [[4, 5, 6]]
    only_with_all = Runs(lambda bad: 9 in bad and (3 not in bad or len(bad) == 16))
    assert [*minimal_sets(range(16), only_with_all)] == [[9]]


def test_among_how_many_the_next_culprit_is_is_known() -> None:
    seen: list[int] = []

    def is_bad(bad: Sequence[int], among: int) -> bool:
        seen.append(among)
        return 11 in bad

    assert [*minimal_sets(range(16), is_bad)] == [[11]]
    assert seen[:6] == [16, 16, 8, 4, 2, 11]
