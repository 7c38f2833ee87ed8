"""Gradients, on the devices that are here: those of an op in a region equal those of the op on inputs cast by hand.

"Backward ops run in the same type that autocast used for the corresponding forward ops": a gradient leaves the op in
the type that the op ran in, and reaches the leaf through the cast, in the leaf's type.
"""

import re
from collections.abc import Callable
from textwrap import shorten
from typing import Any, NamedTuple

import pytest
import torch
from polycast import _compiled

from tests.cases import CASES, Case
from tests.outcomes import SCRATCH, cast_by_hand, filled_memory, nameless, replaced, skip_what_cannot_run, tensors
from tests.probe import device_type, flatten, region
from tests.samples.ops import Arguments, Make, arguments, find
from tests.tally import Tally

F32 = torch.float32
HERE = [
    case for case in CASES if device_type(case.device) in ("cpu", "xla") and case.category not in ("banned", "stock")
]

pytestmark = filled_memory

NOTHING_TO_DERIVE = "no floating-point output depends on it"
# What torch answers by hand where it has no gradient, and last two mistakes: of torch, and of torch_xla in evaluation.
NO_DERIVATIVE = "|".join(
    (
        NOTHING_TO_DERIVE,
        "derivative for .* is not implemented",
        "is not differentiable with respect to argument",
        "modified by an inplace operation",
        "size of mean should be compatible",
    )
)


class Cell(NamedTuple):
    """A row, the lower precision of the region, and the types of the inputs by turns."""

    case: Case
    lower: torch.dtype
    given: tuple[torch.dtype, ...]


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest) -> Tally:
    tally = Tally("Gradients as by hand, of the ops with a differentiable sample")
    request.config.pluginmanager.register(tally)
    return tally


# torch_xla has kernels for composite ops, of which torch warns; their gradients come all the same.
@pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered:UserWarning")
@pytest.mark.parametrize(
    ("column", "case"),
    [pytest.param(case.device, case, id=str(case)) for case in HERE],
    indirect=["column"],
    scope="module",
)
def test_gradients_are_those_of_casting_by_hand(column: str, case: Case, tally: Tally) -> None:
    skip_what_cannot_run(case)
    leaves = differentiable(Cell(case, F32, (F32,)))
    with tally.count(column):
        for lower in lower_precisions(column):
            for cell in (Cell(case, lower, (F32,)), Cell(case, lower, (lower, F32))):
                found, wanted = gradients(in_region, cell, leaves), gradients(by_hand, cell, leaves)
                if isinstance(found, str) or isinstance(wanted, str):
                    assert found == wanted  # what the op refuses by hand, it refuses in a region
                    continue
                found, wanted = [grad.cpu() for grad in found], [grad.cpu() for grad in wanted]
                torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6, equal_nan=True)
                if case.category == "lower_precision_fp" and column == "cpu":  # XLA may keep more digits than the type
                    rounded = [grad.to(lower).to(grad.dtype) for grad in found]
                    torch.testing.assert_close(found, rounded, rtol=0, atol=0, equal_nan=True)


def lower_precisions(column: str) -> tuple[torch.dtype, ...]:
    """Return the default one on XLA, where each takes compiling anew, else all."""
    listed = _compiled.DEVICES[column].lower_precision
    return listed[:1] if device_type(column) == "xla" else listed


def in_region(cell: Cell, sample: Arguments) -> Any:
    """Call the op in a region."""
    operator = find(cell.case.name)
    assert operator is not None
    with region(cell.case.device, cell.lower), torch.set_grad_enabled(True):
        return operator(*sample.args, **sample.kwargs)


def by_hand(cell: Cell, sample: Arguments) -> Any:
    """Call what the op comes to, on inputs cast as its category says."""
    below = find(cell.case.reaches)
    assert below is not None
    sample = cast_by_hand(cell.case, sample, cell.lower)
    return below(*sample.args, **sample.kwargs)


def gradients(call: Callable[[Cell, Arguments], Any], cell: Cell, leaves: list[int]) -> list[torch.Tensor] | str:
    """Return the gradients of the inputs numbered, for outputs weighted unevenly, or why there are none."""
    sample = arguments(cell.case.name, Make(device_type(cell.case.device), *cell.given))
    inputs = [tensor.detach().requires_grad_(index in leaves) for index, tensor in enumerate(tensors(sample))]
    fresh = iter(inputs)
    try:
        outputs = dict(enumerate(flatten(call(cell, replaced(sample, lambda _: next(fresh))))))
        smooth = [
            nameless(output)
            for index, output in outputs.items()
            if output.requires_grad and (cell.case.op, index) not in SCRATCH
        ]
        torch.autograd.backward(smooth, [uneven(output) for output in smooth])
    except RuntimeError as error:
        return shorten(str(error).splitlines()[0], 120)
    grads = [(inputs[index], inputs[index].grad) for index in leaves]
    assert all(grad is None or grad.dtype is leaf.dtype for leaf, grad in grads)
    found = [nameless(grad) for _, grad in grads if grad is not None]
    return found if len(found) == len(leaves) else NOTHING_TO_DERIVE


def uneven(output: torch.Tensor) -> torch.Tensor:
    """Return weights for an output's sum, so that no gradient cancels."""
    weights = torch.linspace(0.5, 1.5, output.numel()).reshape(output.shape)
    return weights.to(output.dtype).to(output.device)


def differentiable(cell: Cell) -> list[int]:
    """Return the numbers of the inputs that the op has a gradient for, called by hand; skip an op that has none."""
    sample = arguments(cell.case.name, Make(device_type(cell.case.device), *cell.given))
    numbers = [index for index, tensor in enumerate(tensors(sample)) if tensor.is_floating_point()]
    if not isinstance(gradients(by_hand, cell, numbers), str):
        return numbers
    found = {number: gradients(by_hand, cell, [number]) for number in numbers}
    reasons = {number: reason for number, reason in found.items() if isinstance(reason, str)}
    assert all(re.search(NO_DERIVATIVE, reason) for reason in reasons.values()), reasons
    if len(reasons) == len(numbers):
        pytest.skip(
            f"{cell.case.name} is not differentiable: {next(iter(reasons.values()), 'no floating-point input')}"
        )
    return [number for number in numbers if number not in reasons]
