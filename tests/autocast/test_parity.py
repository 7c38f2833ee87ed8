"""Parity with stock torch: with polycast installed a device gives the same values and gradients, bit for bit.

The policy means to differ where a rule's note says so, and in one thing more: for inputs in a lower precision that is
not the region's, the promote kernels of torch raise, and the policy's take the widest dtype. A backend outside of torch
may register no kernels for autocasting. Then there are no stock values, and the values are those that the device gives
outside of a region for inputs cast by hand, to the dtypes that the policy says.
"""

import itertools

import polycast
import pytest
import torch
from polycast.debug.verification.outcomes import Result, same
from polycast.debug.verification.samples import Make, arguments, find

from tests.support.cases import Case
from tests.support.devices import casts_by_itself, lower_precision
from tests.support.outcomes import autocast, cannot_run, filled_memory, on_casts, results

F32, BF16, HALF = torch.float32, torch.bfloat16, torch.float16
GIVEN = ((F32,), (HALF,), (BF16,), (HALF, F32), (BF16, F32), (F32, BF16), (HALF, BF16))
PROMOTE_RAISES = "Unexpected floating ScalarType in at::autocast::prioritize"

pytestmark = [*filled_memory, pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")]


def test_the_values_are_those_of_stock_torch(real_device: str, real_case: Case) -> None:
    case = real_case
    if reason := cannot_run(case):
        pytest.skip(reason)
    cells = list(itertools.product(lower_precision(real_device), GIVEN))
    if casts_by_itself(real_device):
        with polycast.uninstall():
            wanted = {cell: in_region(case, real_device, *cell) for cell in cells}
        cells = [cell for cell in cells if PROMOTE_RAISES not in wanted[cell][0]]
    elif case.category in ("banned", "stock"):
        pytest.skip(f"{case.category} rules give no values on {real_device}")
    else:
        wanted = {cell: by_hand(case, real_device, *cell) for cell in cells}
    first = wanted[cells[0]][0]
    assert not isinstance(first, str), f"the sample in python/polycast/debug/verification/samples.py raises: {first}"
    ours = {cell: in_region(case, real_device, *cell) for cell in cells}
    different = [cell for cell in cells if not all(map(same, ours[cell], wanted[cell]))]
    note = polycast.policy.notes(case.device).get(case.op)
    if different and note and casts_by_itself(real_device):
        pytest.skip(f"differs on purpose: {note}")
    assert different == []


def in_region(case: Case, device: str, lower: torch.dtype, given: tuple[torch.dtype, ...]) -> list[Result]:
    """Return what a region gives with the kernels that are in force: the values, and the gradients."""
    operator = find(case.name)
    assert operator is not None
    return results(autocast(operator, case.device, lower), arguments(case.name, Make(device, *given)))


def by_hand(case: Case, device: str, lower: torch.dtype, given: tuple[torch.dtype, ...]) -> list[Result]:
    """Return what the device gives outside of a region for inputs in the dtypes that the policy says."""
    return results(on_casts(case, lower), arguments(case.name, Make(device, *given)))
