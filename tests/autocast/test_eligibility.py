"""What is not cast, as the documents of torch.amp, torch_xla.amp and torch.xpu.amp say.

That each op is cast as its rule says is the business of test_policy_cases.py, and that each name of it comes to the op
that of test_public_names.py.
"""

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from polycast import _compiled
from polycast.backends import device_type_of
from polycast.debug.verification.samples import Make
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.support.cases import FIRST_ON_KEY
from tests.support.probe import is_reachable, kernels_of, probes, reach, region

F64, F32, BF16, F16 = torch.float64, torch.float32, torch.bfloat16, torch.float16


def mm(make: Make) -> Tensor:
    return torch.mm(make(2, 2), make(2, 2))


# The call, the dtypes of its inputs, and the dtype of its result: in a region, and without one.
ROWS: dict[str, tuple[Callable[[Make], Tensor], tuple[torch.dtype, ...], torch.dtype, torch.dtype]] = {
    "a listed op": (mm, (F32,), BF16, F32),
    "float64": (mm, (F64,), F64, F64),
    "in place": (lambda make: make(2, 4).addmm_(make(2, 3), make(3, 4)), (F32,), F32, F32),
    "an unlisted op": (lambda make: torch.abs(make(2, 3)), (F32,), F32, F32),
    "an unlisted op of float16": (lambda make: torch.abs(make(2, 3)), (F16,), F16, F16),
    "an unlisted op behind a listed one": (lambda make: torch.abs(mm(make)), (F32,), BF16, F32),
    "torch's own promotion": (lambda make: make(2, 3) + make(2, 3), (BF16, F32), F32, F32),
}


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("row", ROWS)
def test_a_call_gives_the_dtype_that_the_documents_say(row: str, enabled: bool) -> None:
    call, given, inside, outside = ROWS[row]
    with kernels_of("cpu"), region("cpu", BF16) if enabled else nullcontext():
        assert call(Make("cpu", *given)).dtype is (inside if enabled else outside)


def test_a_call_with_out_is_not_cast() -> None:
    make = Make("cpu")
    with kernels_of("cpu"), region("cpu", BF16), probes("cpu", ["addmm.out"]):
        reached = reach(lambda: torch.addmm(make(2, 4), make(2, 3), make(3, 4), out=make(2, 4)))
    assert set(reached.tensors) == {F32}


@pytest.mark.parametrize("device", FIRST_ON_KEY)
def test_tensors_on_another_device_are_not_cast(device: str) -> None:
    if not is_reachable(device):
        pytest.skip(f"not even a fake tensor of {device_type_of(device)} carries its autocast key")
    for other in {"cpu", "cuda", "xpu", "mps", "mtia", "meta"} - {device_type_of(device)}:
        with kernels_of(device), FakeTensorMode(), region(device, _compiled.DEVICES[device].lower_precision[0]):
            assert mm(Make(other)).dtype == F32, other
