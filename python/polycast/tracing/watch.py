"""A watch for the first value that is not finite, and what would have avoided it."""

import math
import sys
import warnings
from bisect import bisect_right
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from polycast._compiled import RecordedCall, current_call, start_recording, stop_recording, take_calls
from polycast.rules.operators import shown
from polycast.tracing.calls import Sources, split
from polycast.tracing.findings import WIDE, Finding, Flushed, remedy_of
from polycast.tracing.values import (
    Computed,
    Values,
    floating,
    is_cast,
    is_empty,
    is_view,
    read_numbers,
    written,
)


@dataclass(frozen=True)
class _Seen:
    """An op with the places, in what is read at the end of a step, of the magnitudes that belong to it."""

    computed: Computed
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_types: tuple[torch.dtype, ...]
    output_types: tuple[torch.dtype, ...]
    flushed: int | None
    told: bool
    """Whether a number that it was given is not finite."""


class watch:  # noqa: N801 - is used as a function is, as torch.autocast
    """Find the ops, in forward, backward or a step, that make infinities and NaNs of what is finite.

    Each op's magnitudes are computed where its tensors are, and read once a step: when the optimizer's step has ended,
    and when the region is left. It is a tool for a search: a step takes several times as long. What overflows under a
    scaler is found like all else, in steps that the scaler then skips. What is infinite because it was told so, as in
    ``masked_fill(mask, -math.inf)``, and what follows from it, is no finding. Compiled code is not seen.

    Args:
        model: Whose modules are named.
        optimizer: Whose step ends a step of the watch. Without it the whole region is one.

    Attributes:
        findings: In the order of the calls. The first is told as a warning too, as soon as it is known.
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
        1 linear avoided by polycast.Policy({"linear": "fp32"})
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
        self._calls: list[RecordedCall] = []
        self._reads = False
        self._begin()

    def _begin(self) -> None:
        self._seen: list[_Seen] = []
        self._magnitudes: list[Tensor] = []
        # The versions of tensors, and the places of their magnitudes.
        self._known: Any = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]
        # Tensors whose memory nobody has written yet.
        self._empty: Any = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]

    def __enter__(self) -> "watch":
        start_recording(None, sys.maxsize)
        self._values = Values(self._model, self._visit, self._before, current_call)
        self._values.__enter__()
        self._hook = None
        if self._optimizer is not None:
            self._hook = self._optimizer.register_step_post_hook(lambda *_: self.read())
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

    def _before(
        self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[int, ...], tuple[torch.dtype, ...]] | None:
        if self._reads or is_view(function):
            return None
        inputs = [tensor for tensor in floating((args, kwargs)) if tensor not in self._empty]
        return tuple(map(self._magnitude, inputs)), tuple(tensor.dtype for tensor in inputs)

    def _visit(self, computed: Computed, kept: tuple[tuple[int, ...], tuple[torch.dtype, ...]] | None) -> None:
        if kept is None or not computed.outputs:
            if is_empty(computed.function):
                self._empty.update((tensor, True) for tensor in computed.outputs)
            return
        for tensor in computed.outputs:
            self._empty.pop(tensor, None)
            self._known.pop(tensor, None)  # whose version rises only after this
        outputs = tuple(map(self._magnitude, computed.outputs))
        for tensor in written(computed.function, computed.args, computed.kwargs):
            self._known.pop(tensor, None)
        flushed = self._flush(computed) if is_cast(computed.function) else None
        types = tuple(tensor.dtype for tensor in computed.outputs)
        # The op's tensors are not held, only where it was.
        bare = computed._replace(args=(), kwargs={}, outputs=[])
        self._seen.append(_Seen(bare, kept[0], outputs, kept[1], types, flushed, _is_told(computed)))

    def _magnitude(self, tensor: Tensor) -> int:
        """Return the place of a tensor's magnitude, which is computed once for each version of it."""
        version = _version(tensor)
        known: tuple[int | None, int] | None = self._known.get(tensor)
        if known is not None and version is not None and known[0] == version:
            return known[1]
        self._magnitudes.append(_largest(tensor))
        self._known[tensor] = (version, len(self._magnitudes) - 1)
        return len(self._magnitudes) - 1

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
            numbers = read_numbers(self._magnitudes)
        finally:
            self._reads = False
        seen, step = self._seen, self.steps
        self._begin()
        self._values.begin_again()
        self.steps += 1
        for op in seen:
            if op.flushed is not None and numbers[op.flushed] > 1e-3:
                self.flushed.append(Flushed(step, op.computed.site, numbers[op.flushed]))
        given_nan = found = False
        for op in seen:
            given = [numbers[place] for place in op.inputs]
            made = [numbers[place] for place in op.outputs]
            nans = any(map(math.isnan, made))
            from_nans = any(map(math.isnan, given))
            from_infinite = op.told or not all(map(math.isfinite, given))
            infinite = any(map(math.isinf, made)) and not from_infinite
            # NaNs that follow from NaNs or infinities of the same step are no findings of their own.
            if infinite or (nans and not (op.told or (given_nan if from_nans else found and from_infinite))):
                found = True
                self._found(op, tuple(given), next(one for one in made if not math.isfinite(one)), step)
            given_nan |= nans and not op.told

    def _found(self, op: _Seen, magnitudes: tuple[float, ...], result: float, step: int) -> None:
        call = self._call(op.computed)
        rule, origin = ("unlisted", "") if call is None else Sources().find(call)
        name = shown(split(op.computed.function._schema.name if call is None else call.name)[0])
        finding = Finding(
            step, op.computed.site, name, rule, origin, op.input_types, magnitudes, op.output_types, result, ""
        )
        finding = replace(finding, remedy=remedy_of(finding))
        self.findings.append(finding)
        if len(self.findings) == 1:
            warnings.warn(str(finding), stacklevel=4)

    def _call(self, computed: Computed) -> RecordedCall | None:
        """Return the call that autocasting met and that an op, or in backward the forward of it, is a part of."""
        if computed.node is None:
            return next((call for call in self._calls if call.order == computed.call), None)
        nodes = sorted(self._calls, key=lambda call: call.node)
        place = bisect_right(nodes, computed.node, key=lambda call: call.node) - 1
        return nodes[place] if place >= 0 and nodes[place].given else None


def _is_told(computed: Computed) -> bool:
    """Whether a number among the arguments is not finite."""
    return any(
        isinstance(leaf, float) and not math.isfinite(leaf) for leaf in tree_leaves((computed.args, computed.kwargs))
    )


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


@torch.no_grad()
def _largest(tensor: Tensor) -> Tensor:
    """Return the largest absolute value of a tensor, NaN if one is, as a float32 (of float64, float64)."""
    if tensor.numel() == 0:
        return tensor.new_zeros((), dtype=torch.float32)
    wide = tensor.dtype if tensor.dtype in WIDE else torch.float32
    plain = tensor.detach()
    if tensor.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.to(wide) if plain.itemsize < 2 else plain
    most = torch.linalg.vector_norm(plain, math.inf).to(wide)
    return torch.where(plain.isnan().any(), math.nan, most)  # XLA's maximum passes NaNs over
