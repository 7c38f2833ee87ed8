"""The search of ``bisect`` for minimal sets of switches that make a program bad.

Note [How does the search find a minimal set?]
Some switches are as in "bad", the others as in "good". A binary search finds the shortest prefix of the switches that
is bad. Its last switch is a culprit. If the program is good with only this switch, the set has others before it. The
search continues for the shortest prefix that is bad together with the culprits so far. A set of k among n switches
therefore needs about k * (log2(n) + 1) runs. Classic delta debugging, by subsets and their complements, needs more runs
for the same sets. In the worst case no search needs fewer than log2(n).

The search assumes that more switches as in "bad" never make a bad program good. If the assumption is wrong, or if a run
cannot be tested, the result is still a set with which the program was bad. At the end the program runs without each
switch of the set, so the set is minimal in every case. The search repeats these runs and a run with the set, because a
program that fails at random gives false answers.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

S = TypeVar("S", bound=Hashable)
IsBad = Callable[[Sequence[S], int, bool], bool]


def minimal_sets(switches: Sequence[S], is_bad: IsBad[S], likely: int = 0) -> Iterator[list[S]]:
    """Yield disjoint minimal sets that are bad, until the program is good without them.

    Args:
        switches: The switches. Related switches are next to each other.
        is_bad: A function that returns whether the program is bad with these switches as in "bad" and all others as in
            "good". Its second argument is the number of switches among which the next culprit is. If its third argument
            is true, the result depends on the answer: the program runs again, and a different answer raises. The
            program must be bad with all switches, and not bad with none.
        likely: The number of switches at the front that are searched first.
    """
    left = [*switches]
    while left and is_bad(left, len(left), False):
        group = {*_minimal(left, is_bad, likely)}
        yield [switch for switch in left if switch in group]
        likely -= len(group.intersection(left[:likely]))
        left = [switch for switch in left if switch not in group]


def _minimal(switches: Sequence[S], is_bad: IsBad[S], likely: int) -> list[S]:
    """Return a minimal set among switches that are bad together."""
    group: list[S] = []
    rest = switches
    while rest and not (group and is_bad(group, len(rest), False)):
        # With the group, the first `start` switches are not bad, and the first `end` are.
        start, end = 0, len(rest)
        middle = likely
        while end - start > 1:
            middle = middle if start < middle < end else (start + end) // 2
            if is_bad([*rest[:middle], *group], end - start, False):
                end = middle
            else:
                start = middle
            middle = 0
        group = [rest[start], *group]
        rest = rest[:start]
    without = [[other for other in group if other != switch] for switch in group if len(group) > 1]
    for fewer in without:
        if is_bad(fewer, len(group), False):
            return _minimal(fewer, is_bad, 0)
    for claim in (group, *without):
        is_bad(claim, 1, True)
    return group
