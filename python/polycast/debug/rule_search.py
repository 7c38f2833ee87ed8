"""The search for rules under which a call, or its gradient, is finite. Calls run again under each rule."""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from polycast.debug.calls import BACKWARD, FORWARD, is_cast
from polycast.debug.first_nonfinite import difference, is_finite, is_worse, outputs
from polycast.debug.program_calls import Rule, StepCalls
from polycast.debug.search import minimal_sets

_DEPTHS = (6, 24, 96, 400)  # a search reruns up to 6 calls, then up to 24, 96 and 400
_CLOSE = 0.1  # a result is right if its error, relative to float32, is at most this large
_CLOSER = 0.02  # several rules must have at most this error if all rules together do
_ROUNDS = 3  # at most this many searches for later calls follow the first search

# A trial runs calls again under rules, or in float32, and returns the results that must be finite; None if a call
# fails. Its arguments are the calls, the rules, whether to run in float32, and calls whose results the calls read.
Trial = Callable[..., list[Tensor] | None]


@dataclass
class Advice:
    """The result of the search for rules under which a call is finite."""

    start: int
    """The call; in backward, the call whose gradient is non-finite."""
    culprit: int
    """The last call to which the rule applies; with several rules, the first of their last calls; without rules, the
    start."""
    rules: tuple[Rule, ...] = ()
    """Rules under which the result of the call is finite."""
    tried: list[Rule] = field(default_factory=list)
    is_finite_wide: bool | None = None
    """Whether the result is finite in float32; None if unknown."""


def advise(step: StepCalls, failing: int) -> Advice:
    """Search for rules for a call in forward, or for the call whose gradient a call in backward computes."""
    of = step.gradient_of(failing) if step.phase(failing) != FORWARD else failing
    if of is None:
        return Advice(failing, culprit=failing)
    trial = _forward(step, failing) if of == failing else _backward(step, failing)
    call = step.calls[failing]
    if of == failing and not (call.is_in_region or is_cast(step.op(failing))):
        before = step.before([failing], len(step.calls))
        alone, whole = (trial(indices, (), True) for indices in ([failing], before))
        if whole is not None and all(map(is_finite, whole)) and _error(alone, whole) <= _CLOSE:
            return Advice(failing, failing, is_finite_wide=True)  # a rule for an earlier op is not the best fix
    advice = _search(step, of, trial, ())
    for _ in range(_ROUNDS if advice.rules and of == failing else 0):
        later = _next_failing(step, of, advice.rules)
        if later is None:
            break
        more = _search(step, later, _forward(step, later), advice.rules)
        if not more.rules:
            break
        advice.rules = more.rules
    return advice


def _forward(step: StepCalls, failing: int) -> Trial:
    def run(
        indices: Sequence[int], rules: Sequence[Rule], is_wide: bool, earlier: Sequence[int] = ()
    ) -> list[Tensor] | None:
        given = step.again(earlier, rules, is_wide=is_wide)
        values = None if given is None else step.again(indices, rules, is_wide=is_wide, given=given)
        return None if values is None else outputs(step, values, [failing])

    return run


def _backward(step: StepCalls, failing: int) -> Trial:
    """Return a trial that runs calls up to the root of the backward pass, and returns the gradients of their inputs."""
    task = step.calls[failing].task
    backward = [index for index, call in enumerate(step.calls) if call.task == task and step.phase(index) == BACKWARD]
    roots = [root for index in backward if (root := step.gradient_of(index)) is not None]
    thread = step.calls[roots[0]].thread  # another thread may have run a checkpoint again
    root = max(roots, key=lambda index: (step.calls[index].thread == thread, step.calls[index].node, index))
    needed = step.before([root], len(step.calls))

    def run(
        indices: Sequence[int], rules: Sequence[Rule], is_wide: bool, earlier: Sequence[int] = ()
    ) -> list[Tensor] | None:
        given = step.again(earlier, rules, is_wide=is_wide)
        leaves: list[Tensor] = []

        def leaf(tensor: Tensor) -> Tensor:
            leaves.append(tensor.detach().requires_grad_())
            return leaves[-1]

        with contextlib.suppress(Exception), torch.set_grad_enabled(True):  # as in forward, a kernel may raise
            after = step.after(indices, needed)
            values = None if given is None else step.again(after, rules, is_wide=is_wide, given=given, leaf=leaf)
            if values is None:
                return None
            result = values[step.calls[root].outputs[0].key]
            gradients = (one.tensor for index in backward[:1] for one in step.calls[index].inputs)
            first = next((one for one in gradients if one.shape == result.shape), torch.ones_like(result))
            made = torch.autograd.grad(result, leaves, first.detach().to(result), allow_unused=True)
            return [torch.zeros_like(leaf) if one is None else one for one, leaf in zip(made, leaves, strict=True)]
        return None

    return run


def _search(step: StepCalls, start: int, trial: Trial, base: tuple[Rule, ...]) -> Advice:
    advice = Advice(start, culprit=start)
    second: tuple[Rule, ...] = ()  # the result under these rules is finite, but far from the result in float32
    is_given = not all(is_finite(one.tensor) for one in step.calls[start].inputs)  # infinities of a mask may remain
    for depth in _DEPTHS:
        indices = step.before([start], depth)
        run = partial(trial, indices)
        truth = run((), True)
        advice.is_finite_wide = None if truth is None else all(map(is_finite, truth))
        if truth is not None and (advice.is_finite_wide or is_given):

            def error(rules: Sequence[Rule], truth: list[Tensor] = truth, run: Trial = run) -> float:
                return _error(run((*base, *rules), False), truth)

            is_failing = error(()) == math.inf
            if advice.is_finite_wide and not is_failing:  # every rule would seem to help
                return advice
            # The nearest calls do not show, for example, that two long branches with equal results divide by zero.
            earlier = sorted({*step.before([start], len(step.calls))} - {*indices})
            whole = run((), True, earlier)
            earlier, whole = ([], truth) if whole is None else (earlier, whole)
            if not (is_given or all(map(is_finite, whole))):
                advice.is_finite_wide = False
                return advice
            for rules in _candidates(step, indices, error) if is_failing else ():
                advice.tried += [rule for rule in rules if rule not in advice.tried]
                off = error(rules)
                is_better = off <= (_CLOSE if second else sys.float_info.max)
                found = run((*base, *rules), False, earlier) if is_better else None
                if found is not None and not is_worse(found, whole):
                    if off <= _CLOSE:
                        return _finish(step, indices, advice, (*base, *rules))
                    second = rules
        if truth is None or len(indices) < depth:
            break
    return _finish(step, indices, advice, (*base, *second)) if second else advice


def _error(found: list[Tensor] | None, truth: list[Tensor]) -> float:
    """Return the error of results, or infinity if a result is non-finite or unknown."""
    if found is None or is_worse(found, truth):
        return math.inf
    return max(difference(one, right) for one, right in zip(found, truth, strict=True))


def _finish(step: StepCalls, indices: Sequence[int], advice: Advice, rules: tuple[Rule, ...]) -> Advice:
    advice.rules = rules
    last: dict[Rule, int] = {}
    for index in indices:
        for place, op in (*step.rules(index), *step.casts(index)):
            last.update({rule: index for rule in rules if rule in ((place, op), ("", op))})
    advice.culprit = min(last.values(), default=advice.start)
    return advice


def _candidates(
    step: StepCalls, indices: Sequence[int], error: Callable[[Sequence[Rule]], float]
) -> Iterator[tuple[Rule, ...]]:
    """Yield rules to try, the smallest change first: one op in a module, one op, several ops, and then casts."""
    # A rule for a cast cannot change the dtype that the cast returns.
    computing = [index for index in reversed(indices) if not is_cast(step.op(index))]
    narrow = list(dict.fromkeys(rule for index in computing for rule in step.rules(index)))
    rules = list(dict.fromkeys(("", op) for _, op in narrow))
    yield from ((rule,) for rule in dict.fromkeys([*narrow, *rules]))
    if rules and (least := error(rules)) < math.inf:
        bound = _CLOSER if least <= _CLOSER else sys.float_info.max
        yield tuple(next(minimal_sets(rules, lambda chosen, *_: error(chosen) <= bound), ()))
    yield from ((rule,) for rule in dict.fromkeys(rule for index in reversed(indices) for rule in step.casts(index)))


def _next_failing(step: StepCalls, start: int, rules: Sequence[Rule]) -> int | None:
    """Return the first later call in forward that is non-finite under rules; None if float32 is non-finite as well."""
    after = step.after([start], (index for index in range(len(step.calls)) if step.phase(index) == FORWARD))
    indices = {*step.before([start], _DEPTHS[1]), *after}
    here, wide = (step.again(indices, rules, is_wide=one) for one in (False, True))
    if here is None or wide is None:
        return None
    for index in sorted(after):
        if not all(map(is_finite, outputs(step, here, [index]))):
            return index if all(map(is_finite, outputs(step, wide, [index]))) else None
    return None
