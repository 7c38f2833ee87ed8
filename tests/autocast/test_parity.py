"""Parity with stock PyTorch: the values and gradients on a device are equal bit for bit.

Ops whose rule has a note may differ. Inputs in float16 and bfloat16 are omitted where PyTorch's promote kernels raise
for them. A backend without autocast kernels of its own has no stock values. For such a backend, the test casts the
inputs by hand to the dtypes of the policy, and runs the op outside of a region.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import polycast
import pytest
import torch
from polycast.cast_by_hand import Result, cast_by_hand, first_line, flatten, outcome, replaced, same
from polycast.devices import device_type_of
from polycast.op_samples import WITHOUT_SAMPLE, Arguments, Make, arguments, find

from tests.support.below import autocasting
from tests.support.cases import NOTES, Case
from tests.support.devices import casts_by_itself, lower_precision, require_lstm
from tests.support.properties import TIMES

F32, BF16, HALF = torch.float32, torch.bfloat16, torch.float16
GIVEN = ((F32,), (BF16, F32), (HALF,), (BF16,), (HALF, F32), (F32, BF16), (HALF, BF16))
PROMOTE_RAISES = "Unexpected floating ScalarType in at::autocast::prioritize"
# These ops run only on a GPU, real or fake.
WITHOUT_CPU_KERNEL = {"_cudnn_rnn", "_scaled_dot_product_flash_attention", "_thnn_fused_lstm_cell"}
# A backend computes these ops incorrectly, even outside of a region.
CANNOT_RUN = {
    ("xla", "conv_tbc"): "torch_xla returns the bias of conv_tbc, whatever the input",
}
# For each call and gradient of these ops, XLA compiles a loop, which takes ten seconds in each test.
SLOW_ON_XLA = {"svd", "linalg_svd"}
# `linalg_lstsq` lets LAPACK read unwritten pivots, so its results depend on old memory. In deterministic mode, PyTorch
# fills new memory, and warns about ops without a deterministic implementation.
pytestmark = [
    pytest.mark.usefixtures("fill_memory"),
    pytest.mark.filterwarnings("ignore:.* does not have a deterministic implementation:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning"),
]
Cell = tuple[torch.dtype, tuple[torch.dtype, ...]]  # A region's dtype, and the dtypes between which inputs alternate.


def test_the_values_equal_the_values_of_stock_pytorch(real_device: str, real_case: Case) -> None:
    """The values and gradients of each op with a rule equal stock PyTorch's bit for bit (specification 3.8)."""
    case = real_case
    if reason := cannot_run(case):
        pytest.skip(reason)
    if real_device == "xla" and case.op in SLOW_ON_XLA and TIMES == 1:
        pytest.skip("XLA compiles it for ten seconds; TIMES=2 runs it")
    given = GIVEN[:2] if real_device == "xla" else GIVEN  # XLA compiles each combination, which is slow.
    cells = list(itertools.product(lower_precision(real_device), given))
    if casts_by_itself(real_device):
        with polycast.uninstall():
            wanted = {cell: in_region(case, real_device, cell) for cell in cells}
        cells = [cell for cell in cells if PROMOTE_RAISES not in wanted[cell][0]]
    elif case.category in ("banned", "stock"):
        pytest.skip(f"{case.category} ops return no values on {real_device}")
    else:
        wanted = {cell: by_hand(case, real_device, cell) for cell in cells}
    first = wanted[cells[0]][0]
    if case.op == "mkldnn_rnn_layer":
        require_lstm(real_device)
    assert not isinstance(first, str), f"the sample in python/polycast/op_samples.py raises: {first}"
    ours = {cell: in_region(case, real_device, cell) for cell in cells}
    different = [cell for cell in cells if not all(map(same, ours[cell], wanted[cell]))]
    note = NOTES.get((case.op, case.device))
    if different and note and casts_by_itself(real_device):
        pytest.skip(f"differs on purpose: {note}")
    assert different == []


def cannot_run(case: Case) -> str | None:
    """Return the reason why a case is skipped, or None."""
    if case.name in WITHOUT_SAMPLE:
        return f"{case.name} {WITHOUT_SAMPLE[case.name]}"
    if case.name in WITHOUT_CPU_KERNEL:
        return f"{case.name} runs on a GPU only"
    return CANNOT_RUN.get((device_type_of(case.device), case.op))


def in_region(case: Case, device: str, cell: Cell) -> list[Result]:
    """Return an op's values and gradients in a region, with the active kernels."""

    def call(sample: Arguments) -> Any:
        with autocasting(device_type_of(case.device), cell[0]):
            return find(case.name)(*sample.args, **sample.kwargs)  # type: ignore[misc]

    return results(call, arguments(case.name, Make(device, *cell[1])))


def by_hand(case: Case, device: str, cell: Cell) -> list[Result]:
    """Return an op's values and gradients outside of a region, with inputs cast by hand to the policy's dtypes."""

    def call(sample: Arguments) -> Any:
        cast = cast_by_hand(case.category, sample, cell[0])
        return find(case.reaches)(*cast.args, **cast.kwargs)  # type: ignore[misc]

    return results(call, arguments(case.name, Make(device, *cell[1])))


def results(call: Callable[[Arguments], Any], sample: Arguments) -> list[Result]:
    """Return a call's values and joint gradients. If the joint backward raises, compute each gradient separately."""
    inputs = range(len(flatten(sample)))
    values, together = outcome(lambda: call(sample)), gradients(call, sample, inputs)
    if not isinstance(together, str):
        return [values, together]
    return [values, *(gradients(call, sample, [index]) for index in inputs)]


def gradients(call: Callable[[Arguments], Any], sample: Arguments, only: Iterable[int]) -> Result:
    """Return the gradients of the inputs with the indices ``only``, on the CPU, or the first line of the error.

    Only floating-point inputs that affect an output have a gradient. Uneven output weights prevent zero gradients.
    """
    inputs = [tensor.detach() for tensor in flatten(sample)]
    leaves = [inputs[index].requires_grad_() for index in only if inputs[index].is_floating_point()]
    fresh = iter(inputs)
    try:
        with torch.enable_grad():  # type: ignore[no-untyped-call]
            outputs = flatten(call(replaced(sample, lambda _: next(fresh))))
        smooth = [output for output in outputs if output.requires_grad]
        torch.autograd.backward(smooth, [_uneven(output) for output in smooth])
    except RuntimeError as error:
        return first_line(error)
    return [leaf.grad.cpu() for leaf in leaves if leaf.grad is not None]


def _uneven(output: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(0.5, 1.5, output.numel()).reshape(output.shape)
    return weights.to(output.dtype).to(output.device)
