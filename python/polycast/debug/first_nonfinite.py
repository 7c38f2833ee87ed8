"""The search for the ops of a step that make non-finite values, and for a rule that may avoid them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from polycast.debug.calls import BACKWARD, LOWER, STEP, WIDE, Call, Site
from polycast.debug.calls_of_ops import op_name
from polycast.debug.observer import Op
from polycast.debug.ops import is_cast
from polycast.debug.tensor_stats import Magnitude, largest, read_numbers
from polycast.policy.policy import Policy, PolicyError

_CAST = "_to_copy"
_FLOAT32 = ("fp32", "float32", "float64", "fp32_set_opt_dtype", "fp32_append_dtype")
# Whether a smaller scale may avoid an overflow in backward, by whether a scaler skipped the step.
_SCALE = {
    True: "usual in the first steps of a GradScaler: it skipped this one, and finds a smaller scale by itself; ",
    False: "a smaller scale may avoid it, which GradScaler finds by itself; ",
}


@dataclass(frozen=True)
class Seen:
    """An op that ran, and the indices of the magnitudes that belong to it."""

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    flushed: int | None
    """Of the share of elements that a cast flushes to zero."""
    is_meant: bool
    """Whether the program asks for a non-finite result."""
    found_inf: int | None
    """Of the tensor that tells the end of a step whether a scaler skips it."""


def first_nonfinite(
    seen: Sequence[Seen], numbers: Sequence[Magnitude], sources: Mapping[int, tuple[int, ...]], followed: set[int]
) -> Iterator[Seen]:
    """Yield the ops that make infinities and NaNs from finite values, or NaNs from infinities that were meant.

    Args:
        seen: A step's ops, in order.
        numbers: The magnitudes.
        sources: For an input that is a part of results, or holds several, the indices of these results.
        followed: The indices of the values that follow from such an op of an earlier step. Those of this step are
            added.
    """
    nan_seen = False
    for one in seen:
        given, made = ([numbers[index].value for index in indices] for indices in (one.inputs, one.outputs))
        if all(map(math.isfinite, made)) or one.is_meant:
            continue
        non_finite = [index for index in one.inputs if not math.isfinite(numbers[index].value)]
        held = {source for index in non_finite for source in (index, *sources.get(index, ()))}
        follows = not followed.isdisjoint(held) or (nan_seen and any(map(math.isnan, given)))
        is_new = any(map(math.isnan, made)) or all(map(math.isfinite, given))
        if is_new and not follows:
            yield one
        if is_new or follows:
            followed.update(index for index in one.outputs if not math.isfinite(numbers[index].value))
        nan_seen |= any(map(math.isnan, made))


def is_skipped(one: Seen, seen: Sequence[Seen], numbers: Sequence[Magnitude]) -> bool:
    """Return whether a scaler skipped the step that an op is a part of."""
    ends = (later.found_inf for later in seen[seen.index(one) :])
    return next((numbers[end].value > 0 for end in ends if end is not None), False)


def is_finite_in_wider_dtype(one: Seen, numbers: Sequence[Magnitude]) -> bool | None:
    """Return whether an op in lower precision gives finite results in a wider dtype, from the same inputs.

    None if that is unknown, or if the op is in float32 already.
    """
    given = [numbers[index] for index in one.inputs]
    if is_cast(one.op.function):
        return all(math.isfinite(number.value) for number in given)
    if not any(number.dtype in LOWER for number in given) or (results := one.op.in_wider_dtype()) is None:
        return None
    return all(map(math.isfinite, read_numbers([largest(result) for result in results])))


def is_exact(one: Seen, numbers: Sequence[Magnitude], is_finite_wider: bool | None) -> bool:
    """Return whether an op's result is non-finite in any dtype, as the logarithm of 0, which a program may mean."""
    if one.op.site.phase == STEP:
        return False
    if is_finite_wider is not None:
        return not is_finite_wider
    return all(numbers[index].dtype in WIDE for index in (*one.inputs, *one.outputs))


def remedy_of(
    site: Site,
    call: Call | None,
    inputs: Sequence[Magnitude],
    result: Magnitude,
    is_finite_wider: bool | None,
    skipped: bool,
) -> str:
    """Return what may avoid a finding, or why no rule does. The arguments are those of Finding."""
    if any(math.isnan(one.value) for one in inputs):
        return "it was given NaNs that no op of the watch made: look at the data, the weights and old gradients"
    if not all(math.isfinite(one.value) for one in inputs):
        return "it was given infinities that no op of the watch made, as from a row that is masked as a whole"
    if all(one.dtype in WIDE for one in (*inputs, result)):
        return "no rule would have avoided it: it computes in float32"
    if is_finite_wider is False:
        return "no rule would have avoided it: in a wider dtype it is not finite either"
    op, scale = op_name(site, call), _SCALE[skipped] if site.phase == BACKWARD else ""
    if op == _CAST:
        return f"{scale}the program itself casts it, which no rule changes"
    try:
        Policy({op: "fp32"})
    except PolicyError as error:
        return f"{scale}no rule can avoid it: {str(error).splitlines()[0]}"
    if call is not None and call.rule in _FLOAT32:
        return f"{scale}no rule of {op} would have avoided it: it has {call.rule} already"
    rule = f'{{"{op}": "fp32"}}'
    how = f"polycast.Policy({rule})"
    if call is not None and call.origin.startswith("module: "):  # such rules take precedence over all others
        how = f'polycast.assign(model, {{"{call.site.module}": {rule}}})'
    if is_finite_wider and site.phase != BACKWARD:
        return f"in float32 the op alone is finite: {how}"
    return f"{scale}may be avoided by {how}"
