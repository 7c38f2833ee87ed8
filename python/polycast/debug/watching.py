"""A watch for the first value that is not finite, and for what may avoid it."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves

from polycast import _warnings
from polycast.debug.calls import BACKWARD, FORWARD, LOWER, STEP, WIDE, Call, Recording
from polycast.debug.findings import Finding, Flushed, remedy_of
from polycast.debug.measure import Magnitude, Magnitudes, flushed_share, largest
from polycast.debug.ops import is_cast, is_plain, is_update, is_view, named
from polycast.debug.origins import Seen, call_of, is_exact, is_skipped, makers_of, origins
from polycast.debug.values import Op, Values
from polycast.scope.compiled_code import disabled

FLUSHED = 1e-3  # a smaller share is not reported


class watch:  # noqa: N801 - is used as a function is, as torch.autocast
    """Find the ops, in forward, backward or a step, that make infinities and NaNs of what is finite.

    Magnitudes are computed where the tensors are. They are read once a step: when the optimizer's step has ended, and
    when the watch ends. A watch is for a search: a step takes several times as long. It also finds what overflows
    in a step that a scaler then skips. Infinities that the program asks for are no findings, as in
    ``masked_fill(mask, -math.inf)``. Nor are those that any dtype gives, as ``log(0)``, unless a result, a gradient or
    a weight at the end of the step is not finite. Compiled code is not seen.

    Args:
        model: Calls are named after its modules.
        optimizer: Its step ends a step of the watch. Without it the whole watch is one step.

    Attributes:
        findings: In the order of the calls. What follows from one, also in later steps, is none of its own.
        steps: How many steps have been read.
        ops: How many calls were looked at in them.
        flushed: Casts to float16 by which more than a thousandth of the elements became zero.

    ``print(w)`` shows the findings and the flushed casts. It may not be reached where the block ends by an error: then
    they are a warning.

    Raises:
        TypeError: The model is no module, or the optimizer none.
        RuntimeError: A trace or another watch runs.

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
        self._reads = False
        self._begin()

    def _begin(self) -> None:
        self._seen: list[Seen] = []
        self._magnitudes = Magnitudes()
        self._used: set[int] = set()  # the places of results that an op reads or views
        self._followed: set[int] = set()  # those of what follows from a finding of an earlier step

    def __str__(self) -> str:
        """Return the findings and the flushed casts; of those that repeat in later steps the first."""
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
        self._values = Values(self._model, self._visit, self._end_step)
        with ExitStack() as stack:
            self._recording = stack.enter_context(Recording("polycast.debug.watch", self._values.places))
            stack.callback(self._read_rest)
            stack.enter_context(self._values)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stack.close()
        if kind is not None and (self.findings or self.flushed):
            _warnings.warn(str(self))

    def _end_step(self, optimizer: Optimizer) -> None:
        if optimizer is self._optimizer:
            self.read()

    def _read_rest(self) -> None:
        if self._seen:
            steps = self.steps or 1
            is_step = any(one.op.site.phase == BACKWARD for one in self._seen)
            self.read()
            self.steps = self.steps if is_step else steps  # a scaler's last update belongs to the step before

    def _visit(self, op: Op) -> None:
        if self._reads:
            op.run()
        elif is_view(op.function):
            held = self._magnitudes.contents.follow(op)
            # A result that is only detached, as for a log, is still one that nobody reads.
            if op.function._schema.name != "aten::detach":
                self._used.update(held)
        else:
            self._see(op)
            ends = self._optimizer is not None and is_update(op.function)
            if ends and any(one.op.site.phase == BACKWARD for one in self._seen):
                self.read()  # after a step that was skipped: no hook was called

    def _see(self, op: Op) -> None:
        magnitudes = self._magnitudes
        given = [tensor for tensor in op.reads() if not magnitudes.contents.is_unwritten(tensor)]
        inputs = tuple(map(magnitudes.of, given))
        is_lower = any(tensor.dtype in LOWER for tensor in given) and not is_cast(op.function)
        results = op.in_wider_dtype() if is_lower else None
        wider = None if results is None else tuple(magnitudes.add(largest(one), one.dtype) for one in results)
        source = op.args[0] if is_cast(op.function) else None
        is_meant = _is_meant(op)
        decides = is_update(op.function) or op.site.phase == STEP
        found_inf = named(op.function, op.args, op.kwargs).get("found_inf") if decides else None
        skips = None if found_inf is None else magnitudes.of(found_inf)
        op.run()
        if not op.outputs:  # a comparison, or a cast to integers
            self._used.update(inputs if op.function._schema.name != "aten::_local_scalar_dense" else ())
            return
        flushed = None
        if source is not None:
            wider = inputs
            if _may_flush(source, op.outputs[0]):
                flushed = magnitudes.add(flushed_share(source, op.outputs[0]), torch.float32)
        outputs = tuple(map(magnitudes.put, op.outputs))
        self._seen.append(Seen(op, inputs, outputs, wider, flushed, is_meant, makers_of(op), skips))

    def read(self) -> None:
        """End a step: read its magnitudes, in one copy, and find what is not finite."""
        calls = self._recording.take()
        self._reads = True
        try:
            weights = [*self._ends()]
            ends = [self._magnitudes.of(tensor) for tensor in weights]
            numbers = self._magnitudes.read()
            seen, used, sources, step = self._seen, self._used, self._magnitudes.sources, self.steps
            followed = self._followed
            found = [*origins(seen, numbers, sources, followed)]
            broken = [
                tensor
                for tensor, end in zip(weights, ends, strict=True)
                if not followed.isdisjoint((end, *sources.get(end, ())))
            ]
            self._begin()
            self._followed = {self._magnitudes.of(tensor) for tensor in broken}
        finally:
            self._reads = False
        self._values.begin_again()
        self.steps += 1
        self.ops += len(seen)
        for one in seen:
            if one.flushed is not None and (share := numbers[one.flushed].value) > FLUSHED:
                self.flushed.append(Flushed(step, one.op.site, share))
        ends += [place for one in seen if one.op.site.phase == STEP for place in one.outputs]
        read = [one for one in seen if not one.op.function._schema.name.endswith("_like")]
        used |= {place for one in read for given in one.inputs for place in (given, *sources.get(given, ()))}
        # Results other than an op's first one are for its backward.
        ends += [one.outputs[0] for one in seen if one.op.site.phase == FORWARD and one.outputs[0] not in used]
        reached = not all(math.isfinite(numbers[place].value) for place in ends)
        for one in found:
            if reached or not is_exact(one, numbers):
                self._found(one, numbers, call_of(one, calls), step, is_skipped(one, seen, numbers))

    def _ends(self) -> Iterator[Tensor]:
        """Yield what an infinity matters in: weights, and their gradients."""
        for weight in self._model.parameters():
            if not is_lazy(weight):
                yield weight
                if weight.grad is not None:
                    yield weight.grad

    def _found(self, one: Seen, numbers: Sequence[Magnitude], call: Call | None, step: int, skipped: bool) -> None:
        site, inputs = one.op.site, tuple(numbers[place] for place in one.inputs)
        result = next(numbers[place] for place in one.outputs if not math.isfinite(numbers[place].value))
        wider = None if one.wider is None else all(math.isfinite(numbers[place].value) for place in one.wider)
        remedy = remedy_of(site, call, inputs, result, wider, skipped)
        self.findings.append(Finding(step, site, call, inputs, result, remedy, skipped))


def _is_meant(op: Op) -> bool:
    """Return whether a number among the arguments is not finite, so that the program asks for such a result."""
    return any(isinstance(leaf, float) and not math.isfinite(leaf) for leaf in tree_leaves((op.args, op.kwargs)))


def _may_flush(given: Tensor, output: Tensor) -> bool:
    return is_plain(output) and output.dtype is torch.float16 and given.dtype in (torch.bfloat16, *WIDE)
