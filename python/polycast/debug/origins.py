"""Which ops of a step make what is not finite, found in the magnitudes that were read."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from polycast.debug.calls import STEP, WIDE
from polycast.debug.measure import Magnitude
from polycast.debug.values import Op


@dataclass(frozen=True)
class Seen:
    """An op, and the places of the numbers that belong to it in what is read at the end of a step."""

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    wider: tuple[int, ...] | None
    """Of its results in a wider type; None where it was not run in one."""
    flushed: int | None
    """Of the share that a cast flushes to zero."""
    is_told: bool
    """Whether a number among its arguments is not finite."""
    makers: tuple[int, ...]
    """In backward, where a gradient has a lower type: the autograd nodes of the ops that made the tensor."""


def origins(
    seen: Sequence[Seen], numbers: Sequence[Magnitude], sources: Mapping[int, tuple[int, ...]]
) -> Iterator[Seen]:
    """Yield the ops that make infinities and NaNs of what is finite, or NaNs of infinities that were meant.

    Args:
        seen: A step's ops, in order.
        numbers: What was read.
        sources: For an input that is a part of results, or holds several, the places of these.
    """
    followed: set[int] = set()  # the places of what follows from an origin
    nan_seen = False
    for one in seen:
        given, made = ([numbers[place].value for place in places] for places in (one.inputs, one.outputs))
        if all(map(math.isfinite, made)) or one.is_told:
            continue
        not_finite = [place for place in one.inputs if not math.isfinite(numbers[place].value)]
        held = {source for place in not_finite for source in (place, *sources.get(place, ()))}
        follows = not followed.isdisjoint(held) or (nan_seen and any(map(math.isnan, given)))
        is_new = any(map(math.isnan, made)) or all(map(math.isfinite, given))
        if is_new and not follows:
            yield one
        if is_new or follows:
            followed.update(place for place in one.outputs if not math.isfinite(numbers[place].value))
        nan_seen |= any(map(math.isnan, made))


def is_exact(one: Seen, numbers: Sequence[Magnitude]) -> bool:
    """Return whether an op's result is not finite in any type, as the logarithm of 0, which a program may mean."""
    if one.op.site.phase == STEP:
        return False
    if one.wider is not None:
        return not all(math.isfinite(numbers[place].value) for place in one.wider)
    return all(numbers[place].type in WIDE for place in (*one.inputs, *one.outputs))
