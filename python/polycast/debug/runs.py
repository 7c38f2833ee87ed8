"""The two runs of a comparison."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from polycast.debug.calls import Site
from polycast.debug.measure import local, locals_of, moved_by_rounding, relative_errors
from polycast.debug.ops import draws_within, is_cast, is_draw, is_view, named
from polycast.debug.values import Contents, Op, Values


class Ran(NamedTuple):
    """An op that has run."""

    site: Site
    dtypes: tuple[torch.dtype, ...]
    """The dtypes of its results."""
    local: Tensor | None
    inputs: tuple[tuple[int, int], ...]
    """What it was computed from: the numbers of the ops, and which of their results."""


class First:
    """The run that is looked at: its results are held, and each op runs a second time in a wider dtype."""

    def __init__(self, model: nn.Module | None) -> None:
        self.ops: list[Ran] = []
        self.results: dict[Site, list[Tensor]] = {}
        self.masks: dict[Site, Tensor] = {}
        self._contents: Contents[tuple[int, int]] = Contents()
        self.values = Values(model, self._visit)

    def _visit(self, op: Op) -> None:
        if is_cast(op.function) or is_view(op.function):
            self._contents.follow(op)
            return
        inputs = self._contents.of(*op.reads())
        wider = op.in_wider_dtype()
        op.run()
        outputs = {tensor: part for tensor in op.outputs if (part := local(tensor)) is not None}
        if not outputs:
            return
        for place, tensor in enumerate(outputs):
            self._contents.write(tensor, (len(self.ops), place))
        if _is_dropout(op):
            self.masks[op.site] = op.result[1].clone()
        errors = None if wider is None else relative_errors(list(outputs.values()), locals_of(wider))
        self.results[op.site] = [part.clone() for part in outputs.values()]
        dtypes = tuple(tensor.dtype for tensor in outputs)
        self.ops.append(Ran(op.site, dtypes, None if errors is None else errors.max(), inputs))


class Second:
    """The reference run: each result is compared as it comes, and let go with the first run's."""

    def __init__(self, model: nn.Module | None, first: First) -> None:
        self.errors: dict[Site, list[Tensor]] = {}
        self.missing = 0
        self.redrawn: list[Site] = []
        self._held = first.results
        self._masks = first.masks
        self.values = Values(model, self._visit)

    def _visit(self, op: Op) -> None:
        op.run()
        if is_cast(op.function) or is_view(op.function) or not (results := locals_of(op.outputs)):
            return
        if is_draw(op.function):
            self._draw_again(op.site, results)
        elif _is_dropout(op):
            self._drop_again(op)
        elif draws_within(op.function, op.args, op.kwargs):
            self.redrawn.append(op.site)
        errors = relative_errors(self._held.pop(op.site, []), results, moved_by_rounding(op, results))
        if errors is None:
            self.missing += 1
        else:
            self.errors[op.site] = list(errors.unbind())

    @torch.no_grad()
    def _draw_again(self, site: Site, results: list[Tensor]) -> None:
        held = self._held.get(site, [])
        if [one.shape for one in held] == [one.shape for one in results]:
            for result, first in zip(results, held, strict=True):
                result.copy_(first)

    @torch.no_grad()
    def _drop_again(self, op: Op) -> None:
        held, (output, mask) = self._masks.get(op.site), op.result
        if held is not None and held.shape == mask.shape:
            given = named(op.function, op.args, op.kwargs)
            drawn_first = given["input"] * held / max(1 - given["p"], torch.finfo(output.dtype).tiny)
            # What was drawn alike stays as the kernel has rounded it.
            output.copy_(torch.where(mask == held, output, drawn_first))
            mask.copy_(held)


def _is_dropout(op: Op) -> bool:
    """Return whether an op is dropout in one kernel, and drops something."""
    return op.function._schema.name == "aten::native_dropout" and draws_within(op.function, op.args, op.kwargs)
