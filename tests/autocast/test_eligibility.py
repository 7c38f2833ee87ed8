"""Which calls are eligible, as the documents of torch.amp, torch_xla.amp and torch.xpu.amp say, on each device.

A device that is not here is looked at through fake tensors.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from polycast import _compiled, policy
from polycast.backends import device_type_of
from polycast.debug.verification.samples import Make
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.support.cases import FIRST_ON_KEY
from tests.support.probe import flatten, is_reachable, kernels_of, probes, reach, region, tensors_of

F64, F32, BF16, F16, INT = torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64
LOWER = "the region's lower precision"
Call = Callable[[Make], Any]
Row = tuple[Call, tuple[Any, ...], Any]


def mm(make: Make) -> torch.Tensor:
    return torch.mm(make(2, 2), make(2, 2))


def module(made: nn.Module, *shape: int) -> Call:
    def call(make: Make) -> Any:
        parameters = {name: make(*parameter.shape) for name, parameter in made.named_parameters()}
        return torch.func.functional_call(made, parameters, (make(*shape),))

    return call


# The call, the dtypes of its inputs, and the dtype of its result in a region.
ROWS: dict[str, Row] = {
    "a Tensor method": (lambda make: make(2, 4).addmm(make(2, 3), make(3, 4)), (F32,), LOWER),
    "in place": (lambda make: make(2, 4).addmm_(make(2, 3), make(3, 4)), (F32,), F32),
    "an operator": (lambda make: make(2, 3) @ make(3, 4), (F32,), LOWER),
    "an overload": (lambda make: torch.ops.aten.mm.default(make(2, 3), make(3, 4)), (F32,), LOWER),
    "a function": (lambda make: F.linear(make(2, 3), make(4, 3), make(4)), (F32,), LOWER),
    "a module": (module(nn.Linear(3, 4, device="meta"), 2, 3), (F32,), LOWER),
    "a loss module": (lambda make: nn.MSELoss()(make(2, 3), make(2, 3)), (LOWER,), F32),
    "relu, a method": (lambda make: make(2, 3).relu(), (F32,), "relu"),
    "relu, a module": (lambda make: nn.ReLU()(make(2, 3)), (F32,), "relu"),
    "max_pool2d, a module": (lambda make: nn.MaxPool2d(2)(make(1, 1, 4, 4)), (F32,), "max_pool2d"),
    "float64": (mm, (F64,), F64),
    "float64, an fp32 op": (lambda make: torch.cdist(make(2, 3), make(2, 3)), (F64,), F64),
    "integers": (lambda make: torch.mm(make.index(5, 2, 2), make.index(5, 2, 2)), (F32,), INT),
    "prod of integers": (lambda make: torch.prod(make.index(5, 2, 2)), (F32,), INT),
    "an unlisted op of float32": (lambda make: torch.abs(make(2, 3)), (F32,), F32),
    "an unlisted op of float16": (lambda make: torch.abs(make(2, 3)), (F16,), F16),
    "an unlisted op behind a listed one": (lambda make: torch.abs(mm(make)), (F32,), LOWER),
    "torch's own promotion": (lambda make: make(2, 3) + make(2, 3), (LOWER, F32), F32),
    "a safe loss": (lambda make: F.binary_cross_entropy_with_logits(make(2, 3), make(2, 3)), (LOWER,), F32),
    "stack of the lower precision": (lambda make: torch.stack([make(2, 3), make(2, 3)]), (LOWER,), LOWER),
    "stack of both": (lambda make: torch.stack([make(2, 3), make(2, 3)]), (LOWER, F32), F32),
    "addcmul of both": (lambda make: torch.addcmul(make(2, 3), make(2, 3), make(2, 3)), (LOWER, F32), F32),
    **{
        f"{name} with dtype={str(dtype)[6:]}": (call, (F32,), dtype)
        for dtype in (F64, F32, F16, BF16)
        for name, call in {
            "prod": lambda make, dtype=dtype: torch.prod(make(2, 3), dim=1, dtype=dtype),
            "sum": lambda make, dtype=dtype: torch.sum(make(2, 3), dim=1, dtype=dtype),
            "cumsum": lambda make, dtype=dtype: make(2, 3).cumsum(dim=1, dtype=dtype),
        }.items()
    },
}
# Without a region these run in the dtype of their inputs as well.
ALWAYS = ("float64", "float64, an fp32 op", "integers", "prod of integers", "torch's own promotion")


@pytest.fixture(scope="module", params=FIRST_ON_KEY)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """A device under test, the first on its dispatch key, its kernels installed."""
    name: str = request.param
    if not is_reachable(name):
        pytest.skip(f"not even a fake tensor of {device_type_of(name)} carries its autocast key")
    with kernels_of(name), tensors_of(name):
        yield name


def result(device: str, lower: torch.dtype, row: str, *, enabled: bool = True) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtype of the result, and the dtype that it has to be."""
    call, given, wanted = ROWS[row]
    make = Make(device_type_of(device), *(lower if dtype is LOWER else dtype for dtype in given))
    with region(device, lower) if enabled else nullcontext():
        found = flatten(call(make))[0].dtype
    if isinstance(wanted, str) and wanted is not LOWER:
        wanted = LOWER if policy.category(wanted, device) == "lower_precision_fp" else F32
    return found, lower if wanted is LOWER else wanted


@pytest.mark.parametrize("row", ROWS)
def test_a_call_gives_the_dtype_that_the_documents_say(device: str, row: str) -> None:
    for lower in _compiled.DEVICES[device].lower_precision:
        found, wanted = result(device, lower, row)
        assert found == wanted, lower


@pytest.mark.parametrize("row", ALWAYS)
def test_what_is_not_eligible_is_the_same_without_a_region(device: str, row: str) -> None:
    for lower in _compiled.DEVICES[device].lower_precision:
        found, wanted = result(device, lower, row, enabled=False)
        assert found == wanted, lower


def test_a_call_with_out_is_not_cast(device: str) -> None:
    make = Make(device_type_of(device))
    for lower in _compiled.DEVICES[device].lower_precision:
        with region(device, lower), probes(device, ["addmm.out"]):
            call = lambda: torch.addmm(make(2, 4), make(2, 3), make(3, 4), out=make(2, 4))  # noqa: E731
            assert set(reach(call).tensors) == {F32}


@pytest.mark.parametrize("loss", [F.binary_cross_entropy, nn.BCELoss()])
def test_a_banned_loss_names_the_safe_one(device: str, loss: Callable[..., object]) -> None:
    if policy.category("binary_cross_entropy", device) != "banned":
        pytest.skip(f"{device} does not ban it")
    make = Make(device_type_of(device))
    with region(device, F16), pytest.raises(RuntimeError, match="are unsafe to autocast") as raised:
        loss(make(2, 3), make(2, 3))
    assert "binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which are safe" in str(raised.value)


def test_tensors_on_another_device_are_not_cast(device: str) -> None:
    for other in {"cpu", "cuda", "xpu", "mps", "mtia", "meta"} - {device_type_of(device)}:
        with FakeTensorMode(), region(device, _compiled.DEVICES[device].lower_precision[0]):
            assert mm(Make(other)).dtype == F32, other
