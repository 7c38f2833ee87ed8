"""Values and gradients of each category on real devices: those of the op on inputs cast by hand.

One op for each category and device of the policy: that each op's inputs arrive as its category says is the business of
test_policy_cases.py, and that a device computes what torch computes that of test_parity.py. "Backward ops run in the
same dtype that autocast used for the corresponding forward ops": a gradient reaches its leaf in the leaf's dtype.
"""

import re

import pytest
import torch
from polycast import _compiled
from polycast.debug.verification.outcomes import Result, outcome, tensors
from polycast.debug.verification.samples import SAMPLES, WITHOUT_SAMPLE, Make, arguments, find

from tests.support.cases import CASES, Case
from tests.support.devices import policy_devices, real_devices
from tests.support.outcomes import autocast, cannot_run, filled_memory, gradients, on_casts
from tests.support.probe import kernels_of

F32 = torch.float32


def _fits(case: Case) -> bool:
    """Whether an op can show its category: it has gradients for all its inputs, which are several where they mix."""
    if case.category in ("banned", "stock") or cannot_run(case):
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
REAL = {device for device_type in real_devices() for device in policy_devices(device_type)}
for _case in CASES:
    if _case.device in REAL and (_case.device, _case.category) not in CHOSEN and _fits(_case):
        CHOSEN[_case.device, _case.category] = _case

pytestmark = filled_memory


def test_every_row_has_a_sample_or_a_reason() -> None:
    missing = {case.name for case in CASES} - SAMPLES.keys() - WITHOUT_SAMPLE.keys()
    assert not missing, "add a sample of each of these to SAMPLES in python/polycast/debug/verification/samples.py"


def test_a_missing_sample_says_where_to_add_it() -> None:
    text = (
        "erf has no sample; add one to SAMPLES in python/polycast/debug/verification/samples.py, "
        'as in "erf": lambda make: (make(2, 3),)'
    )
    with pytest.raises(LookupError, match=f"^{re.escape(text)}$"):
        arguments("erf", Make("cpu"))


@pytest.mark.parametrize("category", dict.fromkeys(category for _, category in CHOSEN))
def test_a_region_gives_what_casting_by_hand_gives(real_device: str, category: str) -> None:
    cases = [CHOSEN[device, category] for device in policy_devices(real_device) if (device, category) in CHOSEN]
    if not cases:
        pytest.skip(f"no rule of {real_device} has the category {category}")
    for case in cases:
        with kernels_of(case.device):
            check(case, real_device)


def check(case: Case, device_type: str) -> None:
    operator = find(case.name)
    assert operator is not None
    for lower in _compiled.DEVICES[case.device].lower_precision:
        by_hand = on_casts(case, lower)
        for given in ([F32], [lower], [lower, F32]):
            sample = arguments(case.name, Make(device_type, *given))
            in_region = autocast(operator, case.device, lower)
            grads = gradients(in_region, sample)
            same(outcome(in_region, sample), outcome(by_hand, sample), 0)
            same(grads, gradients(by_hand, sample), 1e-6)
            assert not isinstance(grads, str)
            assert [grad.dtype for grad in grads] == [tensor.dtype for tensor in tensors(sample)]
            # XLA may keep more digits than the dtype has.
            if case.category == "lower_precision_fp" and device_type != "xla":
                same(grads, [grad.to(lower).to(grad.dtype) for grad in grads], 0)


def same(found: Result, wanted: Result, tolerance: float) -> None:
    assert not isinstance(found, str)
    assert not isinstance(wanted, str)
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
