"""A watch for the first value that is not finite, and what would have avoided it."""

import math
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from polycast import _caller, backends
from polycast._compiled import RecordedCall, current_call, start_recording, stop_recording, take_calls
from polycast.debug.calls import Sources, split
from polycast.debug.findings import WIDE, Finding, Flushed, remedy_of
from polycast.debug.origins import Seen, is_exact, origins
from polycast.debug.values import (
    BACKWARD,
    FORWARD,
    LOWER,
    STEP,
    Computed,
    Contents,
    Values,
    before_rerun,
    can_rerun,
    floating,
    is_cast,
    is_empty,
    is_plain,
    is_view,
    local,
    read_arguments,
    read_numbers,
    rerun,
    written,
)
from polycast.policy.operators import shown, signatures
from polycast_grammar.categories import VIEW

MAKERS = 8
# What a scaler does at the end of each step, taken or skipped.
UPDATES = ("aten::_amp_update_scale_", "polycast::update_scale_")


class _Given(NamedTuple):
    """What an op is about to take: its magnitudes and types, and what it is run again with in a wider type."""

    magnitudes: tuple[int, ...]
    types: tuple[torch.dtype, ...]
    rerun: tuple[tuple[Any, ...], dict[str, Any]] | None


class watch:  # noqa: N801 - is used as a function is, as torch.autocast
    """Find the ops, in forward, backward or a step, that make infinities and NaNs of what is finite.

    Each op's magnitudes are computed where its tensors are, and read once a step: when the optimizer's step has ended,
    and when the region is left. It is a tool for a search: a step takes several times as long. What overflows under a
    scaler is found like all else, in steps that the scaler then skips. What is infinite because it was told so, as in
    ``masked_fill(mask, -math.inf)``, is no finding, nor what is infinite in any type, as ``log(0)``, unless a result,
    a gradient or a weight at the end of the step is not finite. Compiled code is not seen.

    Args:
        model: Whose modules are named.
        optimizer: Whose step ends a step of the watch. Without it the whole region is one.

    Attributes:
        findings: In the order of the calls. The first is told as a warning too, as soon as it is known.
        steps: How many have been read.
        ops: How many calls were looked at in them.
        flushed: Casts to float16 by which more than a thousandth of the elements became zero.

    Raises:
        TypeError: The model is no module, or the optimizer none.
        RuntimeError: Calls are recorded already.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        >>> _ = torch.nn.init.constant_(model[1].weight, 1e5)
        >>> import warnings; warnings.simplefilter("ignore")
        >>> with polycast.watch(model) as w, polycast.autocast("cpu", torch.float16):
        ...     _ = model(torch.ones(2, 4))
        >>> print(w.findings[0].site.module, w.findings[0].op, w.findings[0].remedy)
        1 linear may be avoided by polycast.Policy({"linear": "fp32"})
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"the model is {model!r:.60}; give a torch.nn.Module")
        if not (optimizer is None or hasattr(optimizer, "register_step_post_hook")):
            raise TypeError(f"the optimizer is {optimizer!r:.60}; give a torch.optim.Optimizer, or none")
        self._model = model
        self._optimizer = optimizer
        self.findings: list[Finding] = []
        self.flushed: list[Flushed] = []
        self.steps = 0
        self.ops = 0
        self._calls: list[RecordedCall] = []
        self._reads = False
        self._begin()

    def _begin(self) -> None:
        self._seen: list[Seen] = []
        self._magnitudes: list[Tensor] = []
        # The versions of tensors, and the places of their magnitudes.
        self._known: Any = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]
        self._used: set[int] = set()
        # Memory that nobody has written yet.
        self._empty: set[int] = set()
        # What memory holds, and what tensors held that came as other objects than those that ops returned.
        self._contents: Contents[int] = Contents()
        self._sources: dict[int, tuple[int, ...]] = {}

    def __str__(self) -> str:
        """Return the findings, of those that are alike the first."""
        alike: dict[tuple[object, ...], list[Finding]] = {}
        for finding in self.findings:
            alike.setdefault((finding.site, finding.op, finding.rule, finding.remedy), []).append(finding)
        lines = []
        for first, *others in alike.values():
            lines.append(str(first))
            if others:
                lines.append(f"  {len(others)} more, up to step {others[-1].step}")
        return "\n".join(lines) or f"no finding; ops: {self.ops}, steps: {self.steps}"

    def __enter__(self) -> "watch":
        self._values = Values(self._model, self._visit, self._before, current_call)
        self._hook = None
        start_recording(None, sys.maxsize)
        try:
            if self._optimizer is not None:
                self._hook = self._optimizer.register_step_post_hook(lambda *_: self.read())
            self._values.__enter__()
        except BaseException:
            stop_recording()
            if self._hook is not None:
                self._hook.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._values.__exit__(kind, error, traceback)
        if self._hook is not None:
            self._hook.remove()
        try:
            if self._seen:
                self.read()
        finally:
            stop_recording()
            take_calls()

    def _before(self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Given | None:
        if self._reads:
            return None
        if is_view(function):
            # The results of a program are what nobody reads; of a view, it is what is viewed.
            if function._schema.name != "aten::detach":
                known = [self._known.get(tensor) for tensor in floating((args, kwargs))]
                self._used.update(place for _, place in filter(None, known))
            return None
        inputs = [tensor for tensor in floating(read_arguments(function, args, kwargs)) if not self._is_empty(tensor)]
        types = tuple(tensor.dtype for tensor in inputs)
        lower = any(kind in LOWER for kind in types) and not is_cast(function) and can_rerun(function, args, kwargs)
        return _Given(
            tuple(map(self._magnitude, inputs)), types, before_rerun(function, args, kwargs) if lower else None
        )

    def _is_empty(self, tensor: Tensor) -> bool:
        return is_plain(tensor) and tensor.untyped_storage()._cdata in self._empty

    def _visit(self, computed: Computed, given: _Given | None) -> None:
        if given is None or not computed.outputs:
            self._pass_over(computed, given)
            return
        for tensor in computed.outputs:
            if is_plain(tensor):
                self._empty.discard(tensor.untyped_storage()._cdata)
            self._known.pop(tensor, None)  # whose version rises only after this
        outputs = tuple(map(self._magnitude, computed.outputs))
        for tensor, place in zip(computed.outputs, outputs, strict=True):
            self._contents.write(tensor, place)
            self._sources.pop(place, None)
        for tensor in written(computed.function, computed.args, computed.kwargs):
            self._known.pop(tensor, None)
        flushed = self._flush(computed) if is_cast(computed.function) and is_plain(computed.outputs[0]) else None
        types = tuple(tensor.dtype for tensor in computed.outputs)
        # The op's tensors are not held, only where it was.
        bare = computed._replace(args=(), kwargs={}, result=None, outputs=[])
        told, wider, makers = _is_told(computed), self._wider(computed, given), _makers(computed)
        self._seen.append(Seen(bare, given.magnitudes, outputs, given.types, types, flushed, told, wider, makers))
        if self._optimizer is not None and computed.function._schema.name in UPDATES and self._has_backward():
            self.read()  # of a step that was skipped, whose hook was not called

    def _pass_over(self, computed: Computed, given: _Given | None) -> None:
        if is_empty(computed.function):
            self._empty.update(tensor.untyped_storage()._cdata for tensor in computed.outputs if is_plain(tensor))
        elif given is None:  # of a view, which holds what was viewed
            held = [place for tensor in floating(computed.args) for place in self._contents.of(tensor)]
            for tensor in computed.outputs:
                self._contents.write(tensor, *held)
        elif computed.function._schema.name != "aten::_local_scalar_dense":
            self._used.update(given.magnitudes)  # by a comparison, or a cast to integers

    def _has_backward(self) -> bool:
        return any(op.computed.site.phase == BACKWARD for op in self._seen)

    def _wider(self, computed: Computed, given: _Given) -> tuple[int, ...] | None:
        """Return the places of the magnitudes of an op's results in a wider type; of a cast, those of its input."""
        if is_cast(computed.function):
            return given.magnitudes
        results = None if given.rerun is None else rerun(computed, *given.rerun)
        return None if results is None else tuple(map(self._magnitude, results))

    def _magnitude(self, tensor: Tensor) -> int:
        """Return the place of a tensor's magnitude, which is computed once for each version of it."""
        version = _version(tensor)
        known: tuple[int | None, int] | None = self._known.get(tensor)
        if known is not None and version is not None and known[0] == version:
            return known[1]
        place = len(self._magnitudes)
        self._magnitudes.append(_largest(tensor))
        self._known[tensor] = (version, place)
        self._sources[place] = self._contents.of(tensor)
        return place

    def _flush(self, computed: Computed) -> int | None:
        (output, *_), given = computed.outputs, computed.args[0]
        if output.dtype is not torch.float16 or given.dtype not in (torch.bfloat16, *WIDE):
            return None
        zeros = ((output == 0) & (given != 0)).sum() / max(1, given.numel())
        self._magnitudes.append(zeros.detach().float())
        return len(self._magnitudes) - 1

    def read(self) -> None:
        """Read what has been computed since the last time, in one copy, and find what is not finite in it."""
        self._calls = take_calls()
        self._reads = True
        try:
            ends = [self._magnitude(tensor) for tensor in self._ends()]
            numbers = read_numbers(self._magnitudes)
        finally:
            self._reads = False
        seen, used, sources, step = self._seen, self._used, self._sources, self.steps
        self._begin()
        self._values.begin_again()
        self.steps += 1
        self.ops += len(seen)
        for op in seen:
            if op.flushed is not None and numbers[op.flushed] > 1e-3:
                self.flushed.append(Flushed(step, op.computed.site, numbers[op.flushed]))
        ends += [place for op in seen if op.computed.site.phase == STEP for place in op.outputs]
        used = used.union(*(op.inputs for op in seen if not op.computed.function._schema.name.endswith("_like")))
        # Results other than an op's first one are for its backward.
        ends += [op.outputs[0] for op in seen if op.computed.site.phase == FORWARD and op.outputs[0] not in used]
        reached = not all(math.isfinite(numbers[place]) for place in ends)
        for op in origins(seen, numbers, sources):
            if reached or not is_exact(op, numbers):
                self._found(op, numbers, step)

    def _ends(self) -> Iterator[Tensor]:
        """Yield what an infinity matters in: weights, and their gradients."""
        for weight in self._model.parameters():
            if not is_lazy(weight):
                yield weight
                if weight.grad is not None:
                    yield weight.grad

    def _found(self, op: Seen, numbers: list[float], step: int) -> None:
        magnitudes = tuple(numbers[place] for place in op.inputs)
        result = next(numbers[place] for place in op.outputs if not math.isfinite(numbers[place]))
        wider = None if op.wider is None else [numbers[place] for place in op.wider]
        call = self._call(op)
        rule, origin = ("unlisted", "") if call is None else Sources().find(call)
        name = shown(split(op.computed.function._schema.name if call is None else call.name)[0])
        finding = Finding(
            step, op.computed.site, name, rule, origin, op.input_types, magnitudes, op.output_types, result, ""
        )
        finite = None if wider is None else all(map(math.isfinite, wider))
        module = None if call is None or not origin.startswith("module: ") else self._values.places.name(call.place)
        finding = replace(finding, remedy=remedy_of(finding, finite, module))
        self.findings.append(finding)
        if len(self.findings) == 1:
            _caller.warn(str(finding))

    def _call(self, op: Seen) -> RecordedCall | None:
        """Return the call that autocasting met and that an op, or in backward the forward of it, is a part of.

        A gradient has the type of its tensor: that is the matter of the last call with a rule that made the tensor.
        """
        if op.computed.node is None or op.computed.call is not None:
            return next((call for call in self._calls if call.order == op.computed.call), None)
        mine = self._call_of_node(op.computed.node)
        nodes = op.makers if is_cast(op.computed.function) else (op.computed.node, *op.makers)
        makers = [
            maker for node in nodes if (maker := self._call_of_node(node)) is not None and not _is_view_or_cast(maker)
        ]
        return next((maker for maker in makers if maker.rule is not None), makers[0] if makers else mine)

    def _call_of_node(self, node: int) -> RecordedCall | None:
        calls = sorted(self._calls, key=lambda call: call.node)
        place = bisect_right(calls, node, key=lambda call: call.node) - 1
        return calls[place] if place >= 0 and calls[place].given else None


def _makers(computed: Computed) -> tuple[int, ...]:
    """Return the autograd nodes of what made the tensor whose gradient an op gives, and of what that was made from.

    They are those whose own gradients have the gradient's type: beside a float16 branch a float32 one has made nothing.
    """
    if computed.node is None or not computed.outputs or computed.outputs[0].dtype not in LOWER:
        return ()
    kind = computed.outputs[0].dtype
    found: list[int] = []
    node: Any = torch._C._current_autograd_node()
    while node is not None and len(found) < MAKERS:
        functions = [function for function, _ in node.next_functions if function is not None]
        node = next((one for one in functions if any(put.dtype is kind for put in one._input_metadata)), None)
        if node is not None:
            found.append(node._sequence_nr())
    return tuple(found)


def _is_view_or_cast(call: RecordedCall) -> bool:
    operator, overload = split(call.name)
    signature = signatures(operator).get(overload)
    return operator == "aten::_to_copy" or (signature is not None and signature.variant == VIEW)


def _is_told(computed: Computed) -> bool:
    """Whether a number among the arguments is not finite."""
    return any(
        isinstance(leaf, float) and not math.isfinite(leaf) for leaf in tree_leaves((computed.args, computed.kwargs))
    )


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


@torch.no_grad()
def _largest(tensor: Tensor) -> Tensor:
    """Return the largest absolute value of a tensor, NaN if one is, as a float32 (of float64, float64).

    Of what cannot be read, such as a tensor without memory, 0.
    """
    plain = local(tensor)
    if plain is None:
        return torch.zeros((), device=backends.HOST)
    wide = plain.dtype if plain.dtype in WIDE else torch.float32
    plain = plain.to(wide) if plain.itemsize < 2 else plain
    most = torch.linalg.vector_norm(plain, math.inf).to(wide)
    return torch.where(plain.isnan().any(), math.nan, most)  # XLA's maximum passes NaNs over
