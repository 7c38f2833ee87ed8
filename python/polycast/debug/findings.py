"""A finding of ``watch``: the op where a problem begins, the op that shows the problem, and a rule that avoids it."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from polycast.debug.calls import BACKWARD, LOWER, STEP, Call, Site, dtype_name
from polycast.debug.first_nonfinite import Flow, NonFinite, outputs
from polycast.debug.program_calls import CAST, Rule, StepCalls
from polycast.debug.rule_search import Advice, advise
from polycast.debug.tensor_stats import Magnitude, largest, most, read_numbers
from polycast.policy.categories import UNLISTED
from polycast.policy.rules import Casts
from polycast.scope.assignment import assigned

_TENSORS = 2  # if there are more tensors, the largest value of each dtype is printed
_SHOWN = 1e-3  # numbers with a smaller relative difference count as equal
_FUNCTION = "Backward"  # the name of the node of a `torch.autograd.Function` ends with this


@dataclass(frozen=True)
class Finding:
    """An op with a non-finite result from finite inputs, or NaNs from infinities, and the op where the problem begins.

    An op whose inputs had NaNs is a finding as well if no watched op made the NaNs.
    """

    step: int
    """The number of steps that ended before the finding."""
    site: Site
    """The op where the problem begins: its result overflows, underflows, or loses its inputs to rounding. In backward,
    the op whose gradient is non-finite, or an op before it."""
    shows: Site
    """The op with the non-finite result; in backward, usually the op whose gradient is non-finite."""
    call: Call | None
    """The call that autocast intercepted at the site, preferably a call with a rule; None if it intercepted none."""
    inputs: tuple[Magnitude, ...]
    """Magnitudes of known floating-point inputs at the site; in backward, of the call with the non-finite result."""
    result: Magnitude
    """The magnitude of the non-finite result."""
    made: tuple[tuple[float, float], ...]
    """The largest and the smallest absolute result at the site, each as computed and in float32; empty if unknown."""
    remedy: str
    """The last printed line: rules under which the result is finite, other advice, or rules that do not help."""
    skipped: bool = False
    """Whether a scaler skipped the step."""

    @property
    def op(self) -> str:
        """The op at the site, by its name in policies."""
        return self.site.op

    def __str__(self) -> str:
        what = "infinity" if math.isinf(self.result.value) else "NaN"
        shows = ("the gradient of " if self.shows.phase == BACKWARD else "") + self.shows.op
        where = f"{self.shows.phase}{_of(self.shows)}"
        begins = "" if self.site[1:3] == self.shows[1:3] else f"; it begins in {self.site.op}"
        begins += _of(self.site) if begins and self.site.module != self.shows.module else ""
        tensors = [one for one in self.inputs if one.dtype is not torch.float64] or self.inputs  # scalars are float64
        parts = dict.fromkeys(f"{dtype_name(one.dtype)} up to {one.value:.3g}" for one in tensors)
        if len(parts) > _TENSORS:
            by_dtype = {dtype: most([one.value for one in tensors if one.dtype is dtype]) for dtype, _ in tensors}
            parts = dict.fromkeys(f"{dtype_name(dtype)} up to {value:.3g}" for dtype, value in by_dtype.items())
        given = ", ".join(parts) or "no floating-point tensor"
        sizes = [
            (how, *pair)
            for how, pair in zip(("up to", "down to"), self.made, strict=False)
            if not math.isclose(*pair, rel_tol=_SHOWN)
        ]
        if sizes and not math.isnan(sizes[0][2]):
            given += ", result {} {:.3g} ({:.3g} in float32)".format(*sizes[0])
        rule = UNLISTED if self.call is None else self.call.rule
        origin = "" if self.call is None else self.call.origin
        place = f" ({'policy.yaml' if origin.startswith('policy.yaml') else origin})" if origin else ""
        return (
            f"step {self.step}: {what} in {dtype_name(self.result.dtype)}: {shows}, in {where}{begins}\n"
            f"  given {given}; rule of {self.site.op}: {rule}{place}\n"
            f"  {self.remedy}"
        )


def _of(site: Site) -> str:
    return f" of '{site.module}'" if site.module else ""


def find(values: NonFinite, flow: Flow, model: nn.Module, number: int) -> Finding:
    """Return the finding for the start of a flow, a call with a non-finite result."""
    step, failing, phase = values.step, flow.start, values.step.phase(flow.start)
    is_searched = not flow.is_nan_given and phase != STEP
    advice = advise(step, failing) if is_searched else Advice(failing, culprit=failing)
    shown = failing if phase == BACKWARD else advice.culprit
    site = step.sites[advice.culprit]
    call = step.calls[failing]
    given = [
        one.tensor
        for one in step.calls[shown].inputs
        if one.tensor.is_floating_point() and (step.is_as_given(shown, one) or flow.is_nan_given)
    ]
    inputs = tuple(map(Magnitude, [tensor.dtype for tensor in given], read_numbers([*map(largest, given)])))
    made = next(one for one in call.outputs if not one.is_finite)
    again = step.again([failing])
    value = math.nan if again is None else read_numbers([largest(again[made.key])])[0]
    rule = max(step.intercepted(advice.culprit), key=lambda one: one.is_ruled, default=None)
    remedy = _remedy(values, flow, advice, model, inputs)
    sizes = [_sizes(values, shown, is_wide) for is_wide in (False, True) if shown == advice.culprit]
    shows = step.sites[failing]
    if call.function:
        site = shows = shows._replace(op=call.function.removesuffix(_FUNCTION))
    elif not (shown == advice.culprit or call.weight):
        shows = step.sites[advice.start]._replace(phase=BACKWARD)
    pair = tuple(zip(*sizes, strict=True)) if all(sizes) else ()
    return Finding(number, site, shows, rule, inputs, Magnitude(made.dtype, value), pair, remedy)


def _sizes(values: NonFinite, index: int, is_wide: bool) -> tuple[float, ...]:
    """Return the largest and the smallest absolute value of the first result of a call, or () if they are unknown."""
    again = values.step.again([index], is_wide=is_wide)
    made = [] if again is None else [one for one in outputs(values.step, again, [index])[:1] if one.numel() > 0]
    return tuple(read_numbers([size for one in made for size in (largest(one), one.abs().min())]))


def _remedy(values: NonFinite, flow: Flow, advice: Advice, model: nn.Module, inputs: Sequence[Magnitude]) -> str:
    step, failing = values.step, flow.start
    call, phase = step.calls[failing], step.phase(failing)
    is_given = flow.is_nan_given or not (advice.rules or all(math.isfinite(one.value) for one in inputs))
    is_received = is_given or not all(step.is_as_given(failing, one) for one in call.inputs)
    if is_received and (sender := step.sender(failing)) is not None:
        return f"another process sent it by {step.calls[sender].name}: check the findings of the watch in that process"
    if flow.is_nan_given:
        return "its inputs had NaNs that no watched op made: check the data, the weights and the earlier gradients"
    if is_given:
        return "its inputs had intended infinities: check for a row whose elements are all masked"
    if phase == STEP:
        return "the optimizer computes it: check eps and the learning rate, and keep the weights in float32"
    is_lost_here = values.is_exact(failing) is False
    scale = "a GradScaler with a smaller init_scale avoids it; " if phase == BACKWARD and is_lost_here else ""
    if call.function:
        change, where = "torch.where around a division by 0", "in the backward of this function"
        if is_lost_here:
            change = ".float() after the gradient and each saved tensor"
        return f"in float32 it is {'' if is_lost_here else 'non-'}finite: write {change} {where}"
    if any(op == CAST for _, op in advice.rules):
        dtype = step.calls[advice.culprit].outputs[0].dtype
        return f"{scale}the program itself casts it: remove the cast to {dtype_name(dtype)}"
    if advice.rules:
        return f"{scale}tried, and finite: {code(step, advice.rules, model)}"
    return f"{scale}{_tried_in_vain(step, failing, advice)}"


def _tried_in_vain(step: StepCalls, failing: int, advice: Advice) -> str:
    call = step.calls[failing]
    dtype = dtype_name(call.outputs[0].dtype)
    written = {output.key for output in call.outputs if output.is_written}
    for given, makers in step.inputs[failing]:
        if given.key in written and not makers:
            return f"it overwrote a tensor in {dtype}: check the values before the call, or keep the tensor in float32"
    if advice.is_finite_wide is False:
        remedy = "check the values, or if the program is finite in float32, run polycast.debug.bisect"
        return f"it is non-finite even with the calls before it in float32: {remedy}"
    ops = ", ".join(dict.fromkeys(op for _, op in advice.tried))
    is_lower = any(one.dtype in LOWER for one in call.outputs)
    if is_lower and advice.is_finite_wide and not step.calls[advice.start].is_in_region:
        return "no region casts it: in float32 it is finite, so call .float() on its inputs"
    tried = f"tried {ops} in fp32, which is not enough" if ops else "there was no rule to try"
    return f"{tried}: polycast.debug.bisect searches all rules"


def code(step: StepCalls, rules: Sequence[Rule], model: nn.Module) -> str:
    """Return the code that sets rules for modules or for the whole program."""
    ops, known = [op for _, op in rules], assigned(model)
    has_own = any(
        one.origin.startswith("module: ") and one.op.partition(".")[0] in ops
        for index in range(len(step.calls))
        for one in (step.intercepted(index) if step.is_lower(index) else ())
    )
    if not has_own and not all(place for place, _ in rules):
        return f"polycast.Policy({json.dumps(dict.fromkeys(ops, 'fp32'))})"
    given: dict[str, dict[str, Casts]] = {}
    for place, op in rules:
        for name in [place] if place else ["", *known]:  # the rules of a module override the rules of the model
            given.setdefault(name, dict(known[name].rules) if name in known else {})[op] = "fp32"
    return f"polycast.assign(model, {json.dumps(given)})"
