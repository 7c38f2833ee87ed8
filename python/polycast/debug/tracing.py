"""A trace: the rule and the casts of each call in a region."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import nn

from polycast._text_table import lines_of
from polycast.debug.calls import BACKWARD, Call, dtype_name
from polycast.debug.observer import Observer
from polycast.torch_internals import disabled

LIMIT = 1_000_000  # a trace records up to this many calls
_HEAD = ("rule", "given", "computed", "returned", "cast", "from")
_NO_CALL = (
    "autocast intercepted no call: this thread entered no region for the device of its tensors, or the code was "
    "compiled; TORCH_COMPILE_DISABLE=1 runs the code without compilation"
)


class OpTotal(NamedTuple):
    """The calls of an op under one rule, and the bytes that their casts read and write."""

    op: str
    rule: str
    calls: int
    casts: int
    reused: int
    bytes: int


class OpTotals(tuple[OpTotal, ...]):
    """A tuple of ``OpTotal`` rows, which prints as a table."""

    def __str__(self) -> str:
        head = ("op", "rule", "calls", "casts", "reused", "bytes cast")
        return "\n".join(lines_of([head, *((*map(str, row[:5]), _bytes(row.bytes)) for row in self)]))


class trace:  # noqa: N801 - lower case, like torch.autocast
    """A context manager that records the module, the rule and the casts of each call in a region.

    A trace changes no result and no random number. It does not record calls in code that ``torch.compile`` compiled,
    calls without a floating-point tensor, or calls after the first million. It records the thread that enters it, and
    the threads that run this thread's backward. Any thread may exit the trace.

    Args:
        model: The model whose module names identify the calls. Without a model, names begin with the class of the
            outermost module, as in "Net.encoder.0".
        lines: Whether to record the program's line for each call. With lines, the recording is slower.

    Raises:
        TypeError: If the model is not a module.
        RuntimeError: If a debug tool already records calls, such as another trace or a watch.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        >>> with polycast.debug.trace(model) as t, polycast.autocast("cpu"):
        ...     _ = model(torch.ones(2, 4)).sum()
        >>> print(t.table())
        module  op            n  rule                given      computed  returned  cast   from
                fill_.Scalar  0  unlisted            float32    float32   float32
        0       linear        0  lower_precision_fp  3 float32  bfloat16  bfloat16  168 B  policy.yaml
        1       relu          0  unlisted            bfloat16   bfloat16  bfloat16
                sum           0  unlisted            bfloat16   bfloat16  bfloat16
    """

    @disabled
    def __init__(self, model: nn.Module | None = None, *, lines: bool = False) -> None:
        if not isinstance(model, nn.Module | None):
            raise TypeError(f"model: expected a torch.nn.Module or None, got {type(model).__name__}; pass the model")
        self._model, self._lines = model, lines
        self._calls: tuple[Call, ...] | None = None

    def __enter__(self) -> "trace":
        self._observer = Observer("polycast.debug.trace", self._model, lines=self._lines, limit=LIMIT)
        self._observer.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._calls = tuple(self._observer.take_calls())
        finally:
            self._observer.__exit__()

    @property
    def calls(self) -> tuple[Call, ...]:
        """The recorded calls, in order.

        Raises:
            RuntimeError: If the trace has not ended.
        """
        if self._calls is None:
            raise RuntimeError(
                "the trace has not ended; run the program in its with block, and read the trace after the block"
            )
        return self._calls

    def __str__(self) -> str:
        """Return the totals by op, or the possible reasons for a trace without calls."""
        if self._calls is None:
            return repr(self)
        lines = [str(self.by_op())] if self.calls else [_NO_CALL]
        if backward := sum(call.site.phase == BACKWARD for call in self.calls):
            lines.append(f"{backward} calls ran in backward; except for checkpoints, call backward() after the region")
        if not self._observer.is_complete:
            lines.append(f"a trace records up to {LIMIT:,} calls, so later calls were not recorded; trace fewer steps")
        return "\n".join(lines)

    def table(self, calls: Iterable[Call] | None = None) -> str:
        """Return a table of all calls, or of given calls, as in ``t.table(call for call in t.calls if call.casts)``."""
        calls = self.calls if calls is None else calls
        rows = [_cells(str(call.site.n), [call]) + (call.source,) * self._lines for call in calls]
        return "\n".join(lines_of([("module", "op", "n", *_HEAD) + ("line",) * self._lines, *rows]))

    def by_module(self) -> str:
        """Return a table of the calls whose rule may set the dtype, grouped by module, op, rule and dtypes."""
        groups: defaultdict[tuple[object, ...], list[Call]] = defaultdict(list)
        for call in self.calls:
            if call.is_ruled:
                key = call.module, call.op, call.rule, call.given, call.arrived, call.returned, call.origin
                groups[key].append(call)
        rows = (_cells(str(len(calls)), calls) for calls in groups.values())
        return "\n".join(lines_of([("module", "op", "calls", *_HEAD), *rows]))

    def by_op(self) -> OpTotals:
        """Return the totals of each op under each rule, sorted by bytes, then by calls, the largest first."""
        groups: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
        for call in self.calls:
            groups[call.op, call.rule].append(call)
        rows = []
        for (op, rule), group in groups.items():
            casts = [cast for call in group for cast in call.casts]
            reused = sum(cast.reused for cast in casts)
            rows.append(OpTotal(op, rule, len(group), len(casts) - reused, reused, sum(cast.bytes for cast in casts)))
        return OpTotals(sorted(rows, key=lambda row: (-row.bytes, -row.calls, row.op)))


def _cells(number: str, calls: Sequence[Call]) -> tuple[str, ...]:
    """Return the cells of calls that differ only in their casts."""
    call, casts = calls[0], [cast for call in calls for cast in call.casts]
    cast_bytes = _bytes(sum(cast.bytes for cast in casts)) if casts else ""
    cast_bytes = "reused" if casts and all(cast.reused for cast in casts) else cast_bytes
    dtypes = _in_order(call.given), _once_each(call.arrived), _once_each(call.returned)
    return call.module, call.op, number, call.rule, *dtypes, cast_bytes, call.origin


def _in_order(dtypes: Sequence[torch.dtype]) -> str:
    """Return the names of dtypes in order. "2 float32" stands for two consecutive float32 dtypes."""
    groups = [(dtype, len(list(group))) for dtype, group in groupby(map(dtype_name, dtypes))]
    return ", ".join(dtype if count == 1 else f"{count} {dtype}" for dtype, count in groups)


def _once_each(dtypes: Sequence[torch.dtype]) -> str:
    return ", ".join(dict.fromkeys(map(dtype_name, dtypes)))


def _bytes(count: float) -> str:
    """Return a number of bytes with a unit, as in "1.5 MB"."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
