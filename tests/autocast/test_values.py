"""Real values, on the devices that are here: an op in a region equals the op called by hand on inputs cast by hand.

The test names no operator; tests/samples/ops.py holds arguments for each.
"""

import pytest
import torch
from polycast import _compiled

from tests.cases import CASES, Case
from tests.outcomes import cast_by_hand, filled_memory, outcome, skip_what_cannot_run
from tests.probe import device_type, region
from tests.samples.ops import SAMPLES, WITHOUT_SAMPLE, Make, arguments, find

F32 = torch.float32
HERE = [case for case in CASES if device_type(case.device) in ("cpu", "xla") and case.category != "stock"]

pytestmark = filled_memory


def test_every_row_has_a_sample_or_a_reason() -> None:
    assert {case.name for case in CASES} <= SAMPLES.keys() | WITHOUT_SAMPLE.keys()


@pytest.mark.parametrize(
    ("column", "case"),
    [pytest.param(case.device, case, id=str(case)) for case in HERE],
    indirect=["column"],
    scope="module",
)
def test_a_region_gives_what_casting_by_hand_gives(column: str, case: Case) -> None:
    skip_what_cannot_run(case)
    operator, below = find(case.name), find(case.reaches)
    assert operator is not None
    assert below is not None
    for lower in _compiled.DEVICES[column].lower_precision:
        for given in ([F32], [lower], [lower, F32]):
            sample = arguments(case.name, Make(device_type(column), *given))
            with region(column, lower):
                result = outcome(operator, sample)
            if case.category == "banned":
                assert isinstance(result, str)
                assert "unsafe to autocast" in result
                continue
            wanted = outcome(below, cast_by_hand(case, sample, lower))
            for index in range(max(len(result), len(wanted))):
                if isinstance(result, str) or isinstance(wanted, str):
                    assert result == wanted  # what the op refuses by hand, it refuses in a region
                else:
                    torch.testing.assert_close(result[index], wanted[index], rtol=0, atol=0, equal_nan=True)
