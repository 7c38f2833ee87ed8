"""Parity with stock torch: with polycast installed the host gives the same values and gradients, bit for bit.

The policy means to differ where a rule's note says so, and in one thing more: for inputs in a lower precision that is
not the region's, the promote kernels of torch raise, and the policy's take the widest dtype.
"""

import itertools
from collections.abc import Iterator

import polycast
import pytest
import torch

from testing.cases import CASES, Case
from testing.outcomes import Result, autocast, cannot_run, filled_memory, gradients, outcome, tensors
from testing.samples.ops import Make, arguments, find
from testing.tally import Tally

F32, BF16, HALF = torch.float32, torch.bfloat16, torch.float16
HOST = "cpu"
ON_HOST = [case for case in CASES if case.device == HOST]
GIVEN = ((F32,), (HALF,), (BF16,), (HALF, F32), (BF16, F32), (F32, BF16), (HALF, BF16))
PROMOTE_RAISES = "Unexpected floating ScalarType in at::autocast::prioritize"

pytestmark = [*filled_memory, pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")]


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest) -> Tally:
    tally = Tally("The same values as stock torch, bit for bit")
    request.config.pluginmanager.register(tally)
    return tally


@pytest.fixture(autouse=True)
def _as_found() -> Iterator[None]:
    before = HOST in polycast.installed()
    yield
    (polycast.install if before else polycast.uninstall)(HOST)


@pytest.mark.parametrize("case", ON_HOST, ids=str)
def test_the_values_are_those_of_stock_torch(case: Case, tally: Tally) -> None:
    if reason := cannot_run(case):
        pytest.skip(reason)
    cells = list(itertools.product((BF16, HALF), GIVEN))
    polycast.uninstall(HOST)
    stock = {cell: results(case, *cell) for cell in cells}
    assert not isinstance(stock[BF16, (F32,)][0], str), (
        f"the sample in testing/samples/ops.py raises: {stock[BF16, (F32,)][0]}"
    )
    polycast.install(HOST)
    ours = {cell: results(case, *cell) for cell in cells}
    cells = [cell for cell in cells if PROMOTE_RAISES not in stock[cell][0]]
    different = [cell for cell in cells if not all(map(same, ours[cell], stock[cell]))]
    note = polycast.policy.notes(HOST).get(case.op)
    if different and note:
        pytest.skip(f"differs on purpose: {note}")
    with tally.count("ops"), tally.count("ops x dtypes", len(cells)):
        assert different == []


def results(case: Case, lower: torch.dtype, given: tuple[torch.dtype, ...]) -> list[Result]:
    """Return what a region gives with the kernels that are in force: the values, and the gradients."""
    operator = find(case.name)
    assert operator is not None
    call, sample = autocast(operator, HOST, lower), arguments(case.name, Make(HOST, *given))
    values, together = outcome(call, sample), gradients(call, sample)
    if not isinstance(together, str):
        return [values, together]
    # An input has no derivative: the others, one by one.
    return [values, *(gradients(call, sample, [index]) for index, _ in enumerate(tensors(sample)))]


def same(ours: Result, stock: Result) -> bool:
    """Return whether two results have the same dtypes, shapes and bits, or the same error."""
    if isinstance(ours, str) or isinstance(stock, str) or len(ours) != len(stock):
        return ours == stock
    return all(
        (mine.dtype, mine.shape, bits(mine)) == (other.dtype, other.shape, bits(other))
        for mine, other in zip(ours, stock, strict=True)
    )


def bits(tensor: torch.Tensor) -> bytes:
    """Return the bytes of the values: NaNs and the signs of zeros count."""
    return tensor.resolve_conj().resolve_neg().contiguous().flatten().view(torch.uint8).numpy().tobytes()
