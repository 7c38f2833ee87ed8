"""Which calls are eligible, as the documents of torch.amp, torch_xla.amp and torch.xpu.amp say.

Each op's dtypes are the business of test_policy_cases.py. A device that is not here is seen through fake tensors.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from polycast import _compiled, policy
from polycast.backends import device_type_of
from polycast.debug.verification.samples import Make
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.support.cases import FIRST_ON_KEY
from tests.support.probe import flatten, is_reachable, kernels_of, probes, reach, region, tensors_of

F64, F32, BF16, F16, INT = torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64
LOWER = "the region's lower precision"


def mm(make: Make) -> Tensor:
    return torch.mm(make(2, 2), make(2, 2))


def linear(make: Make) -> Tensor:
    layer = nn.Linear(3, 4, device="meta")
    state = {name: make(*parameter.shape) for name, parameter in layer.named_parameters()}
    return torch.func.functional_call(layer, state, (make(2, 3),))  # type: ignore[no-any-return]


# The call, the dtypes of its inputs, and the dtype of its result in a region.
ROWS: dict[str, tuple[Callable[[Make], Tensor], tuple[Any, ...], Any]] = {
    "a Tensor method": (lambda make: make(2, 4).addmm(make(2, 3), make(3, 4)), (F32,), LOWER),
    "in place": (lambda make: make(2, 4).addmm_(make(2, 3), make(3, 4)), (F32,), F32),
    "an operator": (lambda make: make(2, 3) @ make(3, 4), (F32,), LOWER),
    "an overload": (lambda make: torch.ops.aten.mm.default(make(2, 3), make(3, 4)), (F32,), LOWER),
    "a function": (lambda make: F.linear(make(2, 3), make(4, 3), make(4)), (F32,), LOWER),
    "a module": (linear, (F32,), LOWER),
    "a loss module": (lambda make: nn.MSELoss()(make(2, 3), make(2, 3)), (LOWER,), F32),
    "relu": (lambda make: make(2, 3).relu(), (F32,), "relu"),
    "max_pool2d": (lambda make: nn.MaxPool2d(2)(make(1, 1, 4, 4)), (F32,), "max_pool2d"),
    "float64": (mm, (F64,), F64),
    "integers": (lambda make: torch.mm(make.index(5, 2, 2), make.index(5, 2, 2)), (F32,), INT),
    "an unlisted op": (lambda make: torch.abs(make(2, 3)), (F32,), F32),
    "an unlisted op of float16": (lambda make: torch.abs(make(2, 3)), (F16,), F16),
    "an unlisted op behind a listed one": (lambda make: torch.abs(mm(make)), (F32,), LOWER),
    "torch's own promotion": (lambda make: make(2, 3) + make(2, 3), (LOWER, F32), F32),
    "stack of the lower precision": (lambda make: torch.stack([make(2, 3), make(2, 3)]), (LOWER,), LOWER),
    "stack of both": (lambda make: torch.stack([make(2, 3), make(2, 3)]), (LOWER, F32), F32),
    "prod with a dtype": (lambda make: torch.prod(make(2, 3), dim=1, dtype=F64), (F32,), F64),
    "cumsum with a dtype": (lambda make: make(2, 3).cumsum(dim=1, dtype=BF16), (F32,), BF16),
}
# Without a region these run in the dtype of their inputs as well.
ALWAYS = ("float64", "integers", "torch's own promotion")
CELLS = [("cpu", row, True) for row in ROWS] + [("cpu", row, False) for row in ALWAYS]
CELLS += [
    ("xla", "relu", True),
    ("xla", "max_pool2d", True),
    ("cuda", "a module", True),
    ("xpu", "stack of both", True),
]


@pytest.mark.parametrize(("device", "row", "enabled"), CELLS)
def test_a_call_gives_the_dtype_that_the_documents_say(device: str, row: str, enabled: bool) -> None:
    skip_unreachable(device)
    call, given, wanted = ROWS[row]
    for lower in _compiled.DEVICES[device].lower_precision:
        with kernels_of(device), tensors_of(device), region(device, lower) if enabled else nullcontext():
            make = Make(device_type_of(device), *(lower if dtype is LOWER else dtype for dtype in given))
            found = flatten(call(make))[0].dtype
        if wanted == row:
            assert found == (lower if policy.category(row, device) == "lower_precision_fp" else F32)
        else:
            assert found == (lower if wanted is LOWER else wanted)


def test_a_call_with_out_is_not_cast() -> None:
    make = Make("cpu")
    with kernels_of("cpu"), region("cpu", BF16), probes("cpu", ["addmm.out"]):
        reached = reach(lambda: torch.addmm(make(2, 4), make(2, 3), make(3, 4), out=make(2, 4)))
    assert set(reached.tensors) == {F32}


@pytest.mark.parametrize("loss", [F.binary_cross_entropy, nn.BCELoss()])
def test_a_banned_loss_names_the_safe_one(loss: Callable[..., object]) -> None:
    make = Make("cuda")
    with kernels_of("cuda"), tensors_of("cuda"), region("cuda", F16):
        inputs = make(2, 3), make(2, 3)
        with pytest.raises(RuntimeError, match="are unsafe to autocast") as raised:
            loss(*inputs)
    assert "binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe" in str(raised.value)


@pytest.mark.parametrize("device", FIRST_ON_KEY)
def test_tensors_on_another_device_are_not_cast(device: str) -> None:
    skip_unreachable(device)
    for other in {"cpu", "cuda", "xpu", "mps", "mtia", "meta"} - {device_type_of(device)}:
        with kernels_of(device), FakeTensorMode(), region(device, _compiled.DEVICES[device].lower_precision[0]):
            assert mm(Make(other)).dtype == F32, other


def skip_unreachable(device: str) -> None:
    if not is_reachable(device):
        pytest.skip(f"not even a fake tensor of {device_type_of(device)} carries its autocast key")
