"""The runs of a comparison: the run that is looked at, and later runs of the same program under other rules."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from polycast.debug.blame import Result
from polycast.debug.calls import BACKWARD, Site
from polycast.debug.calls_of_ops import makers_of
from polycast.debug.observer import Contents, Op
from polycast.debug.ops import by_name, draws_within, is_cast, is_draw, is_view, tensors
from polycast.debug.tensor_stats import local, locals_of, relative_errors


class Ran(NamedTuple):
    """An op that has run."""

    op: Op
    dtypes: tuple[torch.dtype, ...]
    local: Tensor | None
    """The error that it makes itself, and the norm of its result; None if unknown."""
    inputs: tuple[Result, ...]
    """The results that it was computed from."""


class FirstRun:
    """The run that is looked at: its results are held, and each op runs a second time in a wider dtype."""

    def __init__(self) -> None:
        self.ops: list[Ran] = []
        self.results: dict[Site, list[Tensor]] = {}
        self.draws: dict[Site, list[Tensor]] = {}
        """Random numbers, and the masks of dropout in one kernel."""
        self._contents: Contents[Result] = Contents()
        self._read: set[Result] = set()

    def visit(self, op: Op) -> None:
        """Run an op."""
        if is_view(op.function):
            self._contents.follow(op)
            return
        inputs = self._contents.of(*op.reads(tensors))
        expected = locals_of([op.args[0]]) if is_cast(op.function) else op.in_wider_dtype()
        op.run()
        outputs = {tensor: part for tensor in op.results() if (part := local(tensor)) is not None}
        if not outputs:
            return
        op.makers = makers_of(op)
        if not (is_cast(op.function) or op.function._schema.name.endswith("_like")):
            self._read.update(inputs)
        for index, tensor in enumerate(outputs):
            self._contents.write(tensor, (len(self.ops), index))
        inexact = [part for part in outputs.values() if part.is_floating_point()]
        errors = None
        if expected is not None:
            errors = relative_errors(inexact, locals_of(expected)) if inexact else torch.zeros(2, 1)
        dtypes = tuple(tensor.dtype for tensor in outputs)
        self.ops.append(Ran(op, dtypes, None if errors is None else errors.amax(1), inputs))
        if not is_cast(op.function):
            self.results[op.site] = [part.clone() for part in outputs.values()]
        if is_draw(op.function):
            self.draws[op.site] = self.results[op.site]
        elif _is_dropout(op):
            self.draws[op.site] = [op.result[1].clone()]

    def ends(self, returned: object) -> list[Result]:
        """Return the results of the program: its return values, or values that no op reads, and its gradients."""
        made = [*self._contents.of(*tensors(returned))]
        unread = [
            (index, number)
            for index, ran in enumerate(self.ops)
            for number in range(len(ran.dtypes) if ran.op.site.phase == BACKWARD else 1)  # others are for backward
            if (index, number) not in self._read and (ran.op.site.phase == BACKWARD or not made)
        ]
        return [*dict.fromkeys(source for end in made + unread for source in self._sources(end))]

    def _sources(self, end: Result) -> Iterator[Result]:
        """Yield the results that a result is a cast of, which other runs have too."""
        ran = self.ops[end[0]]
        if is_cast(ran.op.function):
            for source in ran.inputs:
                yield from self._sources(source)
        else:
            yield end


class LaterRun:
    """A run under other rules, which draws the random numbers of the first.

    Args:
        first: The first run.
        ends: The sites of its results.
        expected: The results of the reference at these sites, with which this run's are compared. Without them, this
            run is the reference: each result is compared with the first run's, which is released.
    """

    def __init__(
        self, first: FirstRun, ends: Sequence[Site], expected: Mapping[Site, list[Tensor]] | None = None
    ) -> None:
        self.errors: dict[Site, Tensor] = {}
        """The errors of the results of each op, and their norms."""
        self.results: dict[Site, list[Tensor]] = {}
        """The results at the ends."""
        self.missing = 0
        self.redrawn: list[Site] = []
        self._first, self._ends, self._expected = first, {*ends}, expected

    def visit(self, op: Op) -> None:
        """Run an op."""
        op.run()
        if is_cast(op.function) or is_view(op.function) or not (results := locals_of(op.results())):
            return
        if is_draw(op.function):
            self._draw_again(self._first.draws.get(op.site, []), results)
        elif _is_dropout(op):
            self._drop_again(op)
        elif draws_within(op.function, op.args, op.kwargs):
            self.redrawn.append(op.site)
        if self._expected is None:
            errors = relative_errors(self._first.results.pop(op.site, []), results)
            if op.site in self._ends:
                self.results[op.site] = [result.clone() for result in results]
        elif op.site in self._ends:
            errors = relative_errors(results, self._expected.get(op.site, []))
        else:
            return
        if errors is None:
            self.missing += 1
        else:
            self.errors[op.site] = errors

    @torch.no_grad()
    def _draw_again(self, drawn: list[Tensor], results: list[Tensor]) -> None:
        if [one.shape for one in drawn] == [one.shape for one in results]:
            for result, first in zip(results, drawn, strict=True):
                result.copy_(first)

    @torch.no_grad()
    def _drop_again(self, op: Op) -> None:
        (held,), (output, mask) = self._first.draws.get(op.site, [None]), op.result
        if held is not None and held.shape == mask.shape:
            given = by_name(op.function, op.args, op.kwargs)
            drawn_first = given["input"] * held / max(1 - given["p"], torch.finfo(output.dtype).tiny)
            # Elements that both runs keep or drop stay as the kernel has rounded them.
            output.copy_(torch.where(mask == held, output, drawn_first))
            mask.copy_(held)


def _is_dropout(op: Op) -> bool:
    """Return whether an op is dropout in one kernel, and drops something."""
    return op.function._schema.name == "aten::native_dropout" and draws_within(op.function, op.args, op.kwargs)
