"""The search for the calls that make non-finite values which change the results of a step."""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from polycast import devices
from polycast._extension import ProgramCall
from polycast.debug.calls import FORWARD, STEP
from polycast.debug.program_calls import Key, StepCalls, Values

# These calls do not count as readers: they use a tensor's shape, share or copy its values, or check them.
_NOT_READERS = ("_like", "::detach", "::item", "::_local_scalar_dense", "::isfinite", "::isnan", "::isinf")
# These calls move values and compute none.
_MOVERS = (
    "::copy_",
    "::detach_",
    "::lift",
    "::clone",
    "::to.",
    "::_to_copy",
    "::contiguous",
    "::cat",
    "::stack",
    "::pad",
)
_SAME = 0.05  # a smaller relative difference of results counts as rounding


@dataclass
class Flow:
    """The calls that the non-finite values of a call reach."""

    start: int
    is_nan_given: bool
    """Whether the call is the first that reads a NaN from outside of the step."""
    is_exact: bool
    """Whether the result of the call is non-finite in float32 as well."""
    calls: list[int] = field(default_factory=list)
    """The call itself, calls with non-finite results, and views."""
    borders: list[int] = field(default_factory=list)
    """Calls that read non-finite values and return finite ones."""
    ends: list[int] = field(default_factory=list)
    """Calls in an optimizer's step, and calls that return a non-finite weight, gradient or result of the step."""


class NonFinite:
    """The non-finite values of a step.

    Args:
        step: The calls of the step.
        ends: The keys of weights and of gradients.
        is_spoiled: Whether values from before the step may be non-finite because of a finding.
    """

    def __init__(self, step: StepCalls, ends: set[Key], is_spoiled: bool) -> None:
        self.step, self._ends, self._is_spoiled = step, ends, is_spoiled

    def first(self) -> Iterator[tuple[int, bool]]:
        """Yield the calls that make infinities and NaNs from finite values, or NaNs from intended infinities.

        The first call that computes with a NaN from outside of the step is also yielded, with True as the second value.
        """
        # These sets contain the storages of values that follow from a yielded call, of results, and of non-finite ones.
        followed: set[int] = set()
        made_here: set[int] = set()
        bad: set[int] = set()
        nan_seen = self._is_spoiled
        for index, call in enumerate(self.step.calls):
            made = [output for output in call.outputs if not output.is_finite]
            if made and call.has_non_finite_number and any(one.key[0] in followed for one in call.inputs):
                followed.update(output.key[0] for output in made)
            if made and not call.has_non_finite_number:
                inputs = [(one, self.step.is_as_given(index, one)) for one in call.inputs]
                given = [one for one, is_kept in inputs if not is_kept and one.key[0] in bad]
                given += [one for one, is_kept in inputs if is_kept and not is_finite(one.tensor)]
                # An overwritten input, for example of an in-place call, no longer has its earlier values.
                lost = [one for one, is_kept in inputs if not is_kept and one.key[0] not in made_here]
                given = given or [
                    one
                    for one in lost
                    if (self._is_spoiled and not is_finite(one.tensor))
                    or (one.tensor.isnan().any() and not self._makes_nan(index, {one.key: torch.ones_like(one.tensor)}))
                ]
                follows = any(one.key[0] in followed for one in given)
                follows |= nan_seen and any(one.key[0] not in bad for one in given)
                is_nan_given = any(bool(one.tensor.isnan().any()) for one in given)
                if is_nan_given and not follows and any(name in call.name for name in _MOVERS):
                    bad.update(output.key[0] for output in made)
                    continue  # the finding is the first call that computes with the NaN
                is_new = not given or is_nan_given or (not follows and self._makes_nan(index))
                if is_new and not follows:
                    yield index, is_nan_given
                if is_new or follows:
                    followed.update(output.key[0] for output in made)
                nan_seen |= is_nan_given
            made_here.update(output.key[0] for output in call.outputs)
            bad.update(output.key[0] for output in made)

    def _makes_nan(self, index: int, given: Values | None = None) -> bool:
        """Return whether a call makes a NaN or fails if it runs again, with the given values instead of its inputs."""
        values = self.step.again([index], given=given)
        return values is None or any(bool(one.isnan().any()) for one in outputs(self.step, values, [index]))

    def is_exact(self, index: int, leaf: Callable[[Tensor], Tensor] = Tensor.detach) -> bool | None:
        """Return whether the result of a call is non-finite in float32 as well, such as the logarithm of 0.

        With ``Tensor.double`` as ``leaf``, the call runs in float64. Return None if its kernel rejects the dtype.
        """
        wide = self.step.again([index], is_wide=True, leaf=leaf)
        return None if wide is None else not all(map(is_finite, outputs(self.step, wide, [index])))

    def flow(self, start: int, is_nan_given: bool = False, is_exact: bool = False) -> Flow:
        """Return the flow of the non-finite values of a call."""
        flow = Flow(start, is_nan_given, is_exact)
        reached: set[int] = set()
        for index, call in enumerate(self.step.calls[start:], start):
            bad = {one.key[0] for one in call.outputs if not one.is_finite}
            reads = any(one.key[0] in reached for one in call.inputs)
            if index == start or (reads and (bad or {one.is_view for one in call.outputs} == {True})):
                reached |= bad
                flow.calls.append(index)
                flow.ends += [index] if self._is_end(index) else []
            elif reads and _reads_values(call):
                flow.borders.append(index)
        return flow

    def _is_end(self, index: int) -> bool:
        """Return whether a call is in an optimizer's step, or has a non-finite weight, gradient or unread result."""
        phase, made = self.step.phase(index), self.step.calls[index].outputs
        if phase == STEP or any(one.key in self._ends for one in made if not one.is_finite):
            return True
        # The later results of a call in forward are usually for its backward.
        last = made[:1] if phase == FORWARD else made
        return any(not one.is_finite and not self._is_read(index, one.key[0]) for one in last)

    def _is_read(self, index: int, memory: int) -> bool:
        calls = (self.step.calls[reader] for reader in self.step.readers[memory] if reader > index)
        return any(_reads_values(call) and not all(one.is_view for one in call.outputs) for call in calls)

    def cause(self, flow: Flow) -> int | None:
        """Return the first call that is worse than in float32; None if an end of the flow is non-finite in float32."""
        # In backward, a saved view of a result does not run again, and has the values of the program.
        ends = [one for one in flow.ends if self.step.phase(one) == FORWARD] or flow.ends
        indices = [one for one in flow.calls if one <= max(ends, default=flow.start)]
        here, wide = self.step.again(indices), self.step.again(indices, is_wide=True)
        if here is None or wide is None or not all(map(is_finite, outputs(self.step, wide, ends))):
            return None
        for index in indices:
            if is_worse(*(outputs(self.step, values, [index]) for values in (here, wide))):
                return index
        return flow.start

    def matters(self, flow: Flow) -> bool:
        """Return whether a flow changes finite results. Infinities that softmax maps to zero do not change them."""
        indices = [*flow.calls, *flow.borders]
        here, wide = self.step.again(indices), self.step.again(indices, is_wide=True)
        if here is None or wide is None or any(one.shape != wide[key].shape for key, one in here.items()):
            return True
        if all(map(is_finite, outputs(self.step, here, [flow.start]))):
            return True
        # The calls that read infinities run in float32, so that only the infinities differ, and not the rounding.
        mixed = {key: torch.where(one.isfinite(), one, wide[key]) for key, one in here.items() if not is_finite(one)}
        here, wide = (self.step.again(flow.borders, is_wide=True, given=one) for one in (here, {**here, **mixed}))
        if here is None or wide is None:
            return True
        borders = zip(outputs(self.step, here, flow.borders), outputs(self.step, wide, flow.borders), strict=True)
        return any(difference(one, two) > _SAME for one, two in borders)


def _reads_values(call: ProgramCall) -> bool:
    return not any(name in call.name for name in _NOT_READERS)


def is_finite(tensor: Tensor) -> bool:
    """Return whether all elements of a tensor are finite."""
    with contextlib.suppress(Exception):  # a subclass may raise any exception for an op that it does not support
        return bool((tensor.to_dense() if tensor.is_sparse else tensor).isfinite().all())
    return True


def is_worse(results: list[Tensor], expected: list[Tensor]) -> bool:
    """Return whether any element of the results is non-finite where the expected one is finite."""
    bad = [both for both in zip(results, expected, strict=True) if not is_finite(both[0])]
    return any(
        one.shape != right.shape or bool((right.to_dense().isfinite() & ~one.to_dense().isfinite()).any())
        for one, right in bad
    )


def outputs(step: StepCalls, values: Values, indices: list[int]) -> list[Tensor]:
    """Return the floating-point and complex outputs of calls."""
    keys = dict.fromkeys(output.key for index in indices for output in step.calls[index].outputs)
    return [values[key] for key in keys if values[key].is_floating_point() or values[key].is_complex()]


def difference(one: Tensor, right: Tensor) -> float:
    """Return the error of a tensor, relative to the norm of the right one, over the right one's finite elements."""
    if one.shape != right.shape:  # `torch.unique`, for example, may return more elements in float32
        return math.inf
    if right.is_sparse:  # the gradient of an embedding may be sparse
        one, right = one.to_dense(), right.to_dense()
    if not devices.facts_of(right.device.type).has_float64:
        one, right = one.cpu(), right.cpu()
    right = right.to(torch.promote_types(right.dtype, torch.float64))
    known = right.isfinite()
    right = right.where(known, 0)
    off = (one.to(right.dtype).where(known, 0) - right).norm()
    return float((off / right.norm()).nan_to_num(nan=torch.inf)) if off != 0 else 0.0
