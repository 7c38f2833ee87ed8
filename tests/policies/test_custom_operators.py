"""Operators of other libraries under policies, on every device: what their kernels are handed."""

from collections.abc import Iterator
from contextlib import contextmanager

import polycast
import pytest
import torch
from polycast import Policy
from polycast.backends import device_type_of
from polycast.debug.verification.outcomes import expected
from torch import Tensor

from tests.support.cases import FIRST_ON_KEY
from tests.support.probe import in_force, is_reachable, kernels_of, region, tensors_of

F64, F32, INT, HALF, BF16 = torch.float64, torch.float32, torch.int64, torch.float16, torch.bfloat16
seen: list[torch.dtype | None] = []


def _record(*values: object) -> Tensor:
    """Remember the dtypes of all tensors, and the dtype that was passed, and return a new tensor."""
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, torch.dtype):
            seen.append(value)
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, Tensor):
                tensors.append(item)
                seen.append(item.dtype)
    return torch.empty_like(tensors[0])


LIBRARY = torch.library.Library("customs", "DEF")  # type: ignore[no-untyped-call]
SCHEMAS = {
    "attend(Tensor query, Tensor[] memory, Tensor? mask, float scale) -> Tensor": lambda q, m, k, _: _record(q, m, k),
    "gather(Tensor self, Tensor?[] indices) -> Tensor": lambda x, i: _record(x, i),
    "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor": lambda x, dtype=None: _record(x, dtype),
}
for schema, kernel in SCHEMAS.items():
    LIBRARY.define(schema)  # type: ignore[no-untyped-call]
    LIBRARY.impl(schema.partition("(")[0], kernel, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]

DEVICES = [device for device in FIRST_ON_KEY if is_reachable(device)]


@contextmanager
def under(device: str, rules: dict[str, object]) -> Iterator[None]:
    """Be in a region of the device, with its kernels and these rules."""
    lower = polycast._compiled.DEVICES[device].lower_precision[0]
    with kernels_of(device), tensors_of(device), region(device, lower), in_force(Policy(rules)):
        seen.clear()
        yield


def tensor(device: str, dtype: torch.dtype) -> Tensor:
    return torch.empty(2, dtype=dtype, device=device_type_of(device))


@pytest.mark.parametrize(
    ("device", "value"),
    [
        *((device, "lower_precision_fp") for device in DEVICES),
        *(("cpu", value) for value in ("fp32", "promote", "input_dtype", "float64", "float16")),
    ],
)
def test_lists_and_optional_tensors(device: str, value: str) -> None:
    lower = polycast._compiled.DEVICES[device].lower_precision[0]
    wanted = {"float64": F64, "float16": HALF}.get(value, lower)
    category = "lower_precision_fp" if value.startswith("float") else value
    for given in ([F32, HALF, BF16, F32], [HALF, HALF, HALF, HALF], [F64, F32, F64, INT]):
        with under(device, {"customs::attend": value, "torch.ops.customs.gather": value}):
            made = [tensor(device, dtype) for dtype in given]
            torch.ops.customs.attend(made[0], made[1:3], made[3], 1.0)
            assert seen == expected(category, given, wanted)
            seen.clear()
            torch.ops.customs.attend(made[0], [], None, 1.0)
            assert seen == expected(category, given[:1], wanted)
            seen.clear()
            torch.ops.customs.gather(made[0], [None, made[1]])
            assert seen == expected(category, given[:2], wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_a_dtype_argument_is_set_and_a_banned_call_raises(device: str) -> None:
    with under(device, {"customs::mean": "fp32_set_opt_dtype", "customs::gather": "banned"}):
        torch.ops.customs.mean(tensor(device, HALF))
        torch.ops.customs.mean(tensor(device, HALF), dtype=F64)
        torch.ops.customs.mean(tensor(device, INT))
        assert seen == [HALF, F32, HALF, F64, INT]
        with pytest.raises(RuntimeError, match=f"'customs::gather' is banned on {device} by Policy: customs::gather"):
            torch.ops.customs.gather(tensor(device, F32), [])


def test_outside_of_the_policy_an_operator_is_as_it_was() -> None:
    with polycast.autocast("cpu", policy=Policy({"customs::mean": "fp32"})):
        torch.ops.customs.mean(tensor("cpu", HALF))
    with polycast.autocast("cpu"):
        torch.ops.customs.mean(tensor("cpu", HALF))
    assert seen[-2:] == [F32, HALF]


def test_an_operator_with_an_autocast_kernel_of_its_own_is_refused() -> None:
    library = torch.library.Library("customs", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define("own(Tensor self) -> Tensor")  # type: ignore[no-untyped-call]
    library.impl("own", torch.library.fallthrough_kernel, "AutocastCPU")  # type: ignore[no-untyped-call]
    with (
        pytest.raises(ValueError, match="customs::own has an autocast kernel of its own on cpu, which a policy cannot"),
        polycast.autocast("cpu", policy=Policy({"customs::own": "fp32"})),
    ):
        pass


def test_gradients_pass_through_a_cast_of_a_custom_operator() -> None:
    @torch.library.custom_op("customs::double", mutates_args=())
    def double(x: Tensor) -> Tensor:
        seen.append(x.dtype)
        return x * 2

    double.register_autograd(lambda _, gradient: gradient * 2)
    x = torch.ones(2, requires_grad=True)
    with polycast.autocast("cpu", policy=Policy({"customs::double": "lower_precision_fp"})):
        y = double(x)
    y.sum().backward()
    assert (y.dtype, seen[-1]) == (BF16, BF16)
    assert x.grad is not None
    assert (x.grad.dtype, x.grad.tolist()) == (F32, [2.0, 2.0])
