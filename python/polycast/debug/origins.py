"""Which ops of a step make what is not finite, and the calls that they belong to."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from polycast._grammar.categories import VIEW
from polycast.debug.calls import LOWER, STEP, WIDE, Call
from polycast.debug.measure import Magnitude
from polycast.debug.ops import is_cast
from polycast.debug.values import Op
from polycast.policy.operators import qualified, signatures

MAKERS = 8


@dataclass(frozen=True)
class Seen:
    """An op, and the places of the numbers that belong to it in what is read at the end of a step."""

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    wider: tuple[int, ...] | None
    """Of its results in a wider dtype; None where it was not run in one."""
    flushed: int | None
    """Of the share that a cast flushes to zero."""
    is_meant: bool
    """Whether the program asks for a result that is not finite."""
    makers: tuple[int, ...]
    """In backward, where a gradient has a lower precision: the autograd nodes of the ops that made the tensor."""
    found_inf: int | None
    """Of what tells the end of a step whether a scaler skips it."""


def origins(
    seen: Sequence[Seen], numbers: Sequence[Magnitude], sources: Mapping[int, tuple[int, ...]], followed: set[int]
) -> Iterator[Seen]:
    """Yield the ops that make infinities and NaNs of what is finite, or NaNs of infinities that were meant.

    Args:
        seen: A step's ops, in order.
        numbers: What was read.
        sources: For an input that is a part of results, or holds several, the places of these.
        followed: The places of what follows from an origin of an earlier step. Those of this step are added.
    """
    nan_seen = False
    for one in seen:
        given, made = ([numbers[place].value for place in places] for places in (one.inputs, one.outputs))
        if all(map(math.isfinite, made)) or one.is_meant:
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


def is_skipped(one: Seen, seen: Sequence[Seen], numbers: Sequence[Magnitude]) -> bool:
    """Return whether a scaler skipped the step that an op is a part of, as the step's end says."""
    ends = (later.found_inf for later in seen[seen.index(one) :])
    return next((numbers[end].value > 0 for end in ends if end is not None), False)


def is_exact(one: Seen, numbers: Sequence[Magnitude]) -> bool:
    """Return whether an op's result is not finite in any dtype, as the logarithm of 0, which a program may mean."""
    if one.op.site.phase == STEP:
        return False
    if one.wider is not None:
        return not all(math.isfinite(numbers[place].value) for place in one.wider)
    return all(numbers[place].dtype in WIDE for place in (*one.inputs, *one.outputs))


def call_of(one: Seen, calls: Sequence[Call]) -> Call | None:
    """Return the call that autocasting met and that an op is a part of; in backward, the one whose gradient it is.

    A gradient has the dtype of its tensor, which the last call with a rule decided that made the tensor.
    """
    if one.op.node is None or one.op.call is not None:
        return next((call for call in calls if call.order == one.op.call), None)
    by_node = sorted((call for call in calls if call.given), key=lambda call: call.node)

    def of_node(node: int) -> Call | None:
        place = bisect_right(by_node, node, key=lambda call: call.node) - 1
        return by_node[place] if place >= 0 else None

    nodes = one.makers if is_cast(one.op.function) else (one.op.node, *one.makers)
    makers = [maker for node in nodes if (maker := of_node(node)) is not None and not _is_view_or_cast(maker)]
    return next((maker for maker in makers if maker.is_ruled), makers[0] if makers else of_node(one.op.node))


def makers_of(op: Op) -> tuple[int, ...]:
    """Return the autograd nodes of what made the tensor whose gradient an op gives, and of what that was made from.

    They are those whose own gradients have the gradient's dtype: a float32 branch beside a float16 one made nothing.
    """
    if op.node is None or op.outputs[0].dtype not in LOWER:
        return ()
    dtype = op.outputs[0].dtype
    found: list[int] = []
    node: Any = torch._C._current_autograd_node()
    while node is not None and len(found) < MAKERS:
        functions = [function for function, _ in node.next_functions if function is not None]
        node = next((one for one in functions if any(put.dtype is dtype for put in one._input_metadata)), None)
        if node is not None:
            found.append(node._sequence_nr())
    return tuple(found)


def _is_view_or_cast(call: Call) -> bool:
    operator, _, overload = qualified(call.site.op).partition(".")
    signature = signatures(operator).get(overload or "default")
    return operator == "aten::_to_copy" or (signature is not None and signature.variant == VIEW)
