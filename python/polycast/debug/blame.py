"""The share of each op in the error of a program's results.

Note [Which op is responsible for an error?]
A small error of an op may become large: the cosine of a large angle that is 0.1 % wrong can be anything. So we divide
the error of the results among the ops, from the last op to the first. Each op is assigned the error that it makes
itself, and the ops that made its inputs share the rest. The squares of independent errors add up, so we divide the
square. In a sum the absolute errors of the inputs count, and in other ops the relative errors. The shares are
estimates that order the ops. ``compare`` tries rules before it recommends them.
"""

import math
from collections.abc import Mapping, Sequence

from polycast.debug.compared_runs import Ran, Result

LARGEST = 1e9
"""The upper limit of errors. It replaces NaNs and larger errors."""
# In these ops the absolute error of an input counts: its relative error, multiplied by its norm.
_SUMS = ("add", "add_", "sub", "rsub", "cat", "stack", "where", "copy_", "index_put", "scatter_add", "slice_scatter")


def shares(calls: Sequence[Ran], ends: Mapping[Result, float]) -> list[float]:
    """Return the share of each call in the error of the program's results, from 0 to 1.

    Args:
        calls: The calls with their errors, in order.
        ends: The results of the program, with the squares of their errors.
    """
    weights = [0.0] * len(calls)
    for (index, _), square in ends.items():
        weights[index] += square
    largest = [max(map(capped, call.errors), default=0.0) for call in calls]
    for index in reversed(range(len(calls))):
        call, weight = calls[index], weights[index]
        if not weight:
            continue
        is_sum = call.site.op in _SUMS
        parts = [
            (maker, capped(calls[maker].errors[number] * (calls[maker].norms[number] if is_sum else 1)) ** 2)
            for maker, number in call.inputs
        ]
        total = sum(part for _, part in parts)
        whole = largest[index] ** 2
        if call.error is None:
            own = whole - max((largest[maker] ** 2 for maker, _ in parts), default=0.0)
        else:
            own = capped(call.error) ** 2
        weights[index] = weight * (min(1.0, max(0.0, own) / whole) if total and whole else 1.0)
        for maker, part in parts if total else ():
            weights[maker] += (weight - weights[index]) * part / total
    all_of_it = sum(weights)
    return [weight / all_of_it if all_of_it else 0.0 for weight in weights]


def capped(error: float) -> float:
    """Return an error, or ``LARGEST`` if it is larger or NaN."""
    return LARGEST if math.isnan(error) else min(error, LARGEST)
