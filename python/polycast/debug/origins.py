"""Which of a step's ops make what is not finite, of the magnitudes that were read."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from polycast.debug.findings import WIDE
from polycast.debug.values import STEP, Computed


@dataclass(frozen=True)
class Seen:
    """An op with the places, in what is read at the end of a step, of the magnitudes that belong to it."""

    computed: Computed
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_types: tuple[torch.dtype, ...]
    output_types: tuple[torch.dtype, ...]
    flushed: int | None
    told: bool
    """Whether a number that it was given is not finite."""
    wider: tuple[int, ...] | None
    """The magnitudes of its results in a wider type."""
    makers: tuple[int, ...]
    """In backward, where a gradient has a lower type: the autograd nodes of what made the tensor that it is of."""


def origins(seen: list[Seen], numbers: list[float], sources: dict[int, tuple[int, ...]]) -> Iterator[Seen]:
    """Yield the ops that make infinities and NaNs of what is finite, or NaNs of infinities that were meant.

    Sources are the results that an input holds values of, where it is none itself: as a view, a saved tensor.
    """
    followed: set[int] = set()  # the places of what follows from an origin
    nan_seen = False
    for op in seen:
        given, made = ([numbers[place] for place in places] for places in (op.inputs, op.outputs))
        if all(map(math.isfinite, made)) or op.told:
            continue
        not_finite = [place for place in op.inputs if not math.isfinite(numbers[place])]
        held = {source for place in not_finite for source in (place, *sources.get(place, ()))}
        follows = not followed.isdisjoint(held) or (nan_seen and any(map(math.isnan, given)))
        is_new = any(map(math.isnan, made)) or all(map(math.isfinite, given))
        if is_new and not follows:
            yield op
        if is_new or follows:
            followed.update(place for place in op.outputs if not math.isfinite(numbers[place]))
        nan_seen |= any(map(math.isnan, made))


def is_exact(op: Seen, numbers: list[float]) -> bool:
    """Whether an op's result is not finite in any type, as the logarithm of 0: a program may mean that, and mask it."""
    if op.computed.site.phase == STEP:
        return False
    if op.wider is not None:
        return not all(math.isfinite(numbers[place]) for place in op.wider)
    return all(kind in WIDE for kind in (*op.input_types, *op.output_types))
