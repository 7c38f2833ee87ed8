"""Values and gradients of each category on the devices that are here: those of the op on inputs cast by hand.

One op for each category and device: that each op's inputs arrive as its category says is the business of
test_policy_cases.py, and that the host computes what torch computes that of test_parity.py. "Backward ops run in the
same dtype that autocast used for the corresponding forward ops": a gradient reaches its leaf in the leaf's dtype.
"""

import re
from typing import Any

import pytest
import torch
from polycast import _compiled
from polycast.backends import device_type_of

from testing.cases import CASES, Case
from testing.outcomes import Result, autocast, cannot_run, cast_by_hand, filled_memory, gradients, outcome, tensors
from testing.samples.ops import SAMPLES, WITHOUT_SAMPLE, Arguments, Make, arguments, find

F32 = torch.float32


def _fits(case: Case) -> bool:
    """Whether an op can show its category: it has gradients for all its inputs, which are several where they mix."""
    if device_type_of(case.device) not in ("cpu", "xla") or case.category in ("banned", "stock") or cannot_run(case):
        return False
    operator, sample = (
        find(case.name),
        arguments(case.name, Make("cpu")),
    )
    count = len([*tensors(sample)])
    return (
        operator is not None
        and count >= 1 + ("dtype" not in case.category)
        and len(gradients(operator, sample)) == count
    )


CHOSEN: dict[tuple[str, str], Case] = {}
for _case in CASES:
    if (_case.device, _case.category) not in CHOSEN and _fits(_case):
        CHOSEN[_case.device, _case.category] = _case

pytestmark = filled_memory


def test_every_row_has_a_sample_or_a_reason() -> None:
    missing = {case.name for case in CASES} - SAMPLES.keys() - WITHOUT_SAMPLE.keys()
    assert not missing, "add a sample of each of these to SAMPLES in testing/samples/ops.py"


def test_a_missing_sample_says_where_to_add_it() -> None:
    text = 'erf has no sample; add one to SAMPLES in testing/samples/ops.py, as in "erf": lambda make: (make(2, 3),)'
    with pytest.raises(LookupError, match=f"^{re.escape(text)}$"):
        arguments("erf", Make("cpu"))


@pytest.mark.parametrize(
    ("device", "case"),
    [pytest.param(device, case, id=f"{device}-{category}") for (device, category), case in CHOSEN.items()],
    indirect=["device"],
    scope="module",
)
def test_a_region_gives_what_casting_by_hand_gives(device: str, case: Case) -> None:
    operator, below = find(case.name), find(case.reaches)
    assert operator is not None
    assert below is not None

    def by_hand(*args: Any, **kwargs: Any) -> Any:
        sample = cast_by_hand(case, Arguments(args, kwargs), lower)
        return below(*sample.args, **sample.kwargs)

    for lower in _compiled.DEVICES[device].lower_precision:
        for given in ([F32], [lower], [lower, F32]):
            sample = arguments(case.name, Make(device_type_of(device), *given))
            in_region = autocast(operator, device, lower)
            grads = gradients(in_region, sample)
            same(outcome(in_region, sample), outcome(by_hand, sample), 0)
            same(grads, gradients(by_hand, sample), 1e-6)
            assert not isinstance(grads, str)
            assert [grad.dtype for grad in grads] == [tensor.dtype for tensor in tensors(sample)]
            if case.category == "lower_precision_fp" and device == "cpu":  # XLA may keep more digits than the dtype
                same(grads, [grad.to(lower).to(grad.dtype) for grad in grads], 0)


def same(found: Result, wanted: Result, tolerance: float) -> None:
    assert not isinstance(found, str)
    assert not isinstance(wanted, str)
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
