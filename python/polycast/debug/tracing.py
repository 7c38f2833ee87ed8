"""A record of what autocasting did to each call."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import NoReturn

import torch
from torch import nn

from polycast._text_table import lines_of
from polycast.debug.calls import BACKWARD, Call, Recording, text
from polycast.debug.places import Places
from polycast.debug.totals import OpTotals, by_op, bytes_text
from polycast.scope.compiled_code import disabled

_NO_CALL = (
    "autocast met no call: no region was entered in this thread, or only regions of other devices, or the code was "
    "compiled, which a trace does not see (TORCH_COMPILE_DISABLE=1 runs it as it is written)"
)


class trace:  # noqa: N801 - is used as a function is, as torch.autocast
    """Record each call of an op that autocasting meets, in this thread: where, by which rule, and what was cast.

    A trace runs nothing besides the program, so no result and no random number changes. It does not see calls in code
    that torch.compile has compiled, nor calls without a floating-point tensor.

    Args:
        model: Calls are named after its modules. Without it they are named after the class of the outermost module that
            is called, and the names within that.
        lines: Whether to find the line of the program for each call, which takes longer.
        limit: How many calls to hold, one or more. Later calls are not recorded, and the summary says so.

    Raises:
        TypeError: The model is no module.
        ValueError: The limit is below 1.
        RuntimeError: Another trace or a watch runs.

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

    _calls: tuple[Call, ...] | None = None

    @disabled
    def __init__(self, model: nn.Module | None = None, *, lines: bool = False, limit: int = 1_000_000) -> None:
        if not isinstance(model, nn.Module | None):
            raise TypeError(f"model: expected a torch.nn.Module or None, got {type(model).__name__}")
        if limit < 1:
            raise ValueError(f"the limit is {limit}; give the number of calls to hold, 1 or more")
        self._model = model
        self._lines = lines
        self._limit = limit

    def __enter__(self) -> "trace":
        places = Places(self._model)
        with ExitStack() as stack:
            recording = Recording("polycast.debug.trace", places, lines=self._lines, limit=self._limit)
            self._recording = stack.enter_context(recording)
            stack.callback(self._take)
            stack.enter_context(places)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _take(self) -> None:
        self._calls = tuple(self._recording.take())

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls in order.

        Raises:
            RuntimeError: The trace has not ended.
        """
        if self._calls is None:
            raise RuntimeError("the trace has not ended; leave its with block first")
        return self._calls

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self.calls)

    def __iter__(self) -> Iterator[Call]:
        """Yield the calls in order."""
        return iter(self.calls)

    def __getitem__(self, index: int) -> Call:
        """Return a call by its place in the order."""
        return self.calls[index]

    def __bool__(self) -> bool:
        return True  # also before its end, and if nothing was called

    def __call__(self, *_: object) -> NoReturn:
        """Raise: a decorator would keep its calls to itself."""
        raise TypeError(
            "a trace decorates nothing; write with polycast.debug.trace(model) as t: ..., then read t.calls"
        )

    def __str__(self) -> str:
        """Return the calls by op, or why there are none."""
        if self._calls is None:
            return repr(self)
        lines = [str(self.by_op())] if self.calls else [_NO_CALL]
        if backward := sum(call.site.phase == BACKWARD for call in self.calls):
            lines.append(f"{backward} of the calls are of backward, which is better run after the region")
        if not self._recording.complete:
            lines.append("later calls were not recorded, because the limit of the trace was reached")
        return "\n".join(lines)

    def table(self) -> str:
        """Return a line for each call."""
        head = ("module", "op", "n", "rule", "given", "computed", "returned", "cast", "from")
        return "\n".join(lines_of([head + ("line",) * self._lines, *map(self._cells, self.calls)]))

    def _cells(self, call: Call) -> tuple[str, ...]:
        moved = bytes_text(sum(cast.bytes for cast in call.casts)) if call.casts else ""
        if call.casts and all(cast.reused for cast in call.casts):
            moved = "reused"
        dtypes = (_folded(call.given), _dtypes(call.arrived), _dtypes(call.returned))
        cells = (call.site.module, call.site.op, str(call.site.n), call.rule, *dtypes, moved, call.origin)
        return (*cells, call.source) if self._lines else cells

    def by_op(self) -> OpTotals:
        """Return the calls of each op under each rule, which print as a table."""
        return by_op(self.calls)


def _folded(dtypes: Sequence[torch.dtype]) -> str:
    """Return dtypes in order; "2 float32" is two that follow one another."""
    groups = [(dtype, len(list(group))) for dtype, group in groupby(map(text, dtypes))]
    return ", ".join(dtype if count == 1 else f"{count} {dtype}" for dtype, count in groups)


def _dtypes(dtypes: Sequence[torch.dtype]) -> str:
    return ", ".join(dict.fromkeys(map(text, dtypes)))
