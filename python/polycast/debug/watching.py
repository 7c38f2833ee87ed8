"""A watch for the first non-finite value, and for a rule that may avoid it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from polycast import _warnings
from polycast.debug.calls import BACKWARD, FORWARD, STEP, WIDE, Call, Site, dtype_name
from polycast.debug.calls_of_ops import CallsOfOps, makers_of, op_name
from polycast.debug.first_nonfinite import (
    Seen,
    first_nonfinite,
    is_exact,
    is_finite_in_wider_dtype,
    is_skipped,
    remedy_of,
)
from polycast.debug.observer import Observer, Op
from polycast.debug.ops import by_name, is_cast, is_plain, is_scale_update, is_view
from polycast.debug.tensor_stats import Magnitude, Magnitudes, flushed_share
from polycast.policy.categories import UNLISTED
from polycast.torch_internals import disabled, tree_leaves

_FLUSHED = 1e-3  # a smaller share is not reported


@dataclass(frozen=True)
class Finding:
    """An op whose result is infinite or NaN though its inputs were not.

    An op whose inputs had NaNs is a finding as well if no op of the watch made them.
    """

    step: int
    """How many steps ended before it."""
    site: Site
    """The op below autograd and autocast."""
    call: Call | None
    """The call in the program that the op is a part of; in backward, the call whose gradient it computes."""
    inputs: tuple[Magnitude, ...]
    """Of its floating-point tensors, in the order of its arguments."""
    result: Magnitude
    remedy: str
    """A rule that may avoid it, or why no rule does."""
    skipped: bool
    """Whether a scaler skipped the step."""

    @property
    def op(self) -> str:
        """The op as policies name it."""
        return op_name(self.site, self.call)

    def __str__(self) -> str:
        what = "NaN" if math.isnan(self.result.value) else "infinite"
        given = ", ".join(f"{dtype_name(one.dtype)} up to {one.value:.3g}" for one in self.inputs)
        rule = UNLISTED if self.call is None else self.call.rule
        origin = f" ({self.call.origin})" if self.call is not None and self.call.origin else ""
        relation = "whose gradient this is" if self.site.phase == BACKWARD else "which runs it"
        of = self.op if op_name(self.site, None) == self.op else f"{self.op}, {relation}"
        return (
            f"step {self.step}: {what} in {dtype_name(self.result.dtype)}: {self.site}\n"
            f"  given {given or 'no floating-point tensor'}; rule of {of}: {rule}{origin}\n"
            f"  {self.remedy}"
        )


class Flushed(NamedTuple):
    """A cast to float16 by which values underflow to zero: their share of all elements."""

    step: int
    site: Site
    share: float

    def __str__(self) -> str:
        return f"step {self.step}: {self.share:.1%} became zero in float16: {self.site}"


class watch:  # noqa: N801 - is used as a function is, as torch.autocast
    """Find the ops, in forward, backward or a step, that make infinities and NaNs from finite values.

    Magnitudes are computed on the device of the tensors, and read once in each step: when the optimizer's step has
    ended, and when the watch ends. Until then the watch holds references to the inputs of the step's ops, so it needs
    about the memory of the step's activations. A watch is for a search: a step takes several times as long.

    It also finds overflow in a step that a scaler then skips. Infinities that the program asks for are no findings, as
    in ``masked_fill(mask, -math.inf)``. Infinities that any dtype gives, as ``log(0)``, are findings only if a result,
    a gradient or a weight at the end of the step is non-finite. Compiled code is not seen.

    Args:
        model: Calls are named after its modules.
        optimizer: Its step ends a step of the watch. Without it, the step of any optimizer does. A program that calls
            no optimizer is one step.

    Attributes:
        findings: In the order of the calls. What follows from a finding, also in later steps, is not a finding.
        steps: How many steps have ended.
        ops: How many calls were looked at in them.
        flushed: Casts to float16 by which more than a thousandth of the elements underflow to zero.

    ``print(w)`` shows the findings and the flushed casts. If the block ends by an error, they are a warning.

    Raises:
        TypeError: If the model is not a module, or the optimizer not an optimizer.
        RuntimeError: If a trace, a comparison or another watch is active.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        >>> _ = torch.nn.init.constant_(model[1].weight, 1e5)
        >>> with polycast.debug.watch(model) as w, polycast.autocast("cpu", torch.float16):
        ...     _ = model(torch.ones(2, 4))
        >>> print(w.findings[0].site.module, w.findings[0].op, w.findings[0].remedy)
        1 linear in float32 the op alone is finite: polycast.Policy({"linear": "fp32"})
    """

    @disabled
    def __init__(self, model: nn.Module, optimizer: Optimizer | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
        if not (optimizer is None or hasattr(optimizer, "register_step_post_hook")):
            raise TypeError(f"optimizer: expected a torch.optim.Optimizer or None, got {type(optimizer).__name__}")
        self._model = model
        self._optimizer = optimizer
        self.findings: list[Finding] = []
        self.flushed: list[Flushed] = []
        self.steps = 0
        self.ops = 0
        self._is_reading = False
        self._followed: set[int] = set()  # the indices of values that follow from a finding of an earlier step
        self._begin_step()

    def _begin_step(self) -> None:
        self._seen: list[Seen] = []
        self._magnitudes = Magnitudes()
        self._used: set[int] = set()  # the indices of results that an op reads or views

    def __str__(self) -> str:
        """Return the findings and the flushed casts: the first of those that repeat in later steps."""
        alike: dict[tuple[object, ...], list[Finding | Flushed]] = {}
        for finding in self.findings:
            alike.setdefault((finding.site, finding.op, finding.remedy), []).append(finding)
        for cast in self.flushed:
            alike.setdefault((cast.site,), []).append(cast)
        lines = [] if self.findings else [f"no finding; ops: {self.ops}, steps: {self.steps}"]
        for first, *others in alike.values():
            lines += [str(first)] + [f"  {len(others)} more, up to step {one.step}" for one in others[-1:]]
        return "\n".join(lines)

    def __enter__(self) -> "watch":
        self._observer = Observer("polycast.debug.watch", self._model, self._visit, self._end_step)
        self._observer.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._observer.__exit__()
        if self._seen:
            steps, is_step = self.steps or 1, self._has_backward()
            self.read()
            self.steps = self.steps if is_step else steps  # a scaler's last update belongs to the step before
        if kind is not None and (self.findings or self.flushed):
            _warnings.warn(str(self))

    def _end_step(self, optimizer: Optimizer) -> None:
        if self._optimizer in (None, optimizer):
            self.read()

    def _has_backward(self) -> bool:
        return any(one.op.site.phase == BACKWARD for one in self._seen)

    def _visit(self, op: Op) -> None:
        if self._is_reading:
            op.run()
        elif is_view(op.function):
            held = self._magnitudes.contents.follow(op)
            # A result that is only detached, as for a log, still counts as a result that nothing reads.
            if op.function._schema.name != "aten::detach":
                self._used.update(held)
        else:
            self._see(op)
            if is_scale_update(op.function) and self._has_backward():
                self.read()  # after a step that was skipped: no hook was called

    def _see(self, op: Op) -> None:
        magnitudes = self._magnitudes
        given = [tensor for tensor in op.reads() if not magnitudes.contents.is_unwritten(tensor)]
        inputs = tuple(map(magnitudes.of, given))
        source = op.args[0] if is_cast(op.function) else None
        ends_step = is_scale_update(op.function) or op.site.phase == STEP
        found_inf = by_name(op.function, op.args, op.kwargs).get("found_inf") if ends_step else None
        skips = None if found_inf is None else magnitudes.of(found_inf)
        op.hold()
        op.run()
        if not op.outputs:  # a comparison, or a cast to integers
            self._used.update(inputs if op.function._schema.name != "aten::_local_scalar_dense" else ())
            return
        flushed = None
        if source is not None and _may_flush(source, op.outputs[0]):
            flushed = magnitudes.add(flushed_share(source, op.outputs[0]), torch.float32)
        op.makers = makers_of(op)
        outputs = tuple(map(magnitudes.put, op.outputs))
        self._seen.append(Seen(op, inputs, outputs, flushed, _is_meant(op), skips))

    def read(self) -> None:
        """End a step: read its magnitudes, in one copy, and find the ops that made non-finite values."""
        calls = self._observer.take_calls()
        self._is_reading = True
        try:
            self._read(calls)
        finally:
            self._is_reading = False
        self._observer.begin_step()

    def _read(self, calls: Sequence[Call]) -> None:
        weights = [*self._weights_and_gradients()]
        ends = [self._magnitudes.of(tensor) for tensor in weights]
        numbers, seen, used, sources = self._magnitudes.read(), self._seen, self._used, self._magnitudes.sources
        found = [*first_nonfinite(seen, numbers, sources, self._followed)]
        follows = [not self._followed.isdisjoint((end, *sources.get(end, ()))) for end in ends]
        step, self.steps, self.ops = self.steps, self.steps + 1, self.ops + len(seen)
        self._begin_step()
        self._followed = {self._magnitudes.of(tensor) for tensor, one in zip(weights, follows, strict=True) if one}
        for one in seen:
            if one.flushed is not None and (share := numbers[one.flushed].value) > _FLUSHED:
                self.flushed.append(Flushed(step, one.op.site, share))
        ends += [index for one in seen if one.op.site.phase == STEP for index in one.outputs]
        read = [one for one in seen if not one.op.function._schema.name.endswith("_like")]
        used |= {index for one in read for given in one.inputs for index in (given, *sources.get(given, ()))}
        # Results other than an op's first one are for its backward.
        ends += [one.outputs[0] for one in seen if one.op.site.phase == FORWARD and one.outputs[0] not in used]
        reached = not all(math.isfinite(numbers[index].value) for index in ends)
        calls_of_ops = CallsOfOps(calls)
        for one in found:
            wider = is_finite_in_wider_dtype(one, numbers)
            if reached or not is_exact(one, numbers, wider):
                self._add(one, numbers, calls_of_ops.of(one.op), step, wider, is_skipped(one, seen, numbers))

    def _weights_and_gradients(self) -> Iterator[Tensor]:
        for weight in self._model.parameters():
            if not is_lazy(weight):
                yield weight
                if weight.grad is not None:
                    yield weight.grad

    def _add(
        self, one: Seen, numbers: Sequence[Magnitude], call: Call | None, step: int, wider: bool | None, skipped: bool
    ) -> None:
        site, inputs = one.op.site, tuple(numbers[index] for index in one.inputs)
        result = next(numbers[index] for index in one.outputs if not math.isfinite(numbers[index].value))
        remedy = remedy_of(site, call, inputs, result, wider, skipped)
        self.findings.append(Finding(step, site, call, inputs, result, remedy, skipped))


def _is_meant(op: Op) -> bool:
    """Return whether a number among the arguments is non-finite, so that the program asks for such a result."""
    return any(isinstance(leaf, float) and not math.isfinite(leaf) for leaf in tree_leaves((op.args, op.kwargs)))


def _may_flush(given: Tensor, output: Tensor) -> bool:
    return is_plain(output) and output.dtype is torch.float16 and given.dtype in (torch.bfloat16, *WIDE)
