"""``find_non_finite``, ``norm`` and ``unscale_``: only non-finite elements are found, and the norms are correct."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from polycast.devices import facts_of
from torch import Tensor

from tests.support.devices import has_float64
from tests.support.optimizers import Kernels, on_host

F32, F64, BF16, HALF = torch.float32, torch.float64, torch.bfloat16, torch.float16
INF, NAN = math.inf, math.nan
SIZES = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 257, 1023, 1024, 1025, 1100)
OP = torch.ops.polycast


def needs(dtype: torch.dtype, operators: Kernels) -> None:
    if dtype is F64 and not has_float64(operators.device):
        pytest.skip(f"{operators} has no float64")


@pytest.mark.parametrize("dtype", [F32, F64, BF16, HALF], ids=str)
def test_one_element_is_found_at_every_position(dtype: torch.dtype, operators: Kernels) -> None:
    """Each tensor has one non-finite element, in aligned or unaligned memory. Finite tensors are not reported."""
    needs(dtype, operators)
    is_fused, is_host = operators == Kernels("cpu"), operators.device == "cpu"
    sizes, offsets = SIZES if is_fused else (1, 9, 17) if is_host else (9,), (0, 1, 3) if is_host else (0,)
    for size, offset in itertools.product(sizes, offsets):
        tensors = [torch.ones(size, dtype=dtype, device=operators.device)]
        for value in (NAN, INF, -INF):
            memory = torch.ones(size, size + 4, dtype=dtype)
            memory[:, offset : offset + size].fill_diagonal_(value)
            rows = [row[offset : offset + size] for row in memory.to(operators.device).unbind()]
            tensors += [*rows[:: max(size // 64, 1)], rows[-1], tensors[0]]
        wanted = torch.tensor([float(tensor is not tensors[0]) for tensor in tensors])
        one, found_inf = torch.ones((), device=operators.device), torch.zeros((), device=operators.device)
        assert OP.find_non_finite(tensors)[1].cpu().equal(wanted)
        assert OP.norm(tensors, False)[2].cpu().equal(wanted)
        assert OP.unscale_(tensors, found_inf, one).cpu().equal(wanted)
        assert found_inf.item() == 1


def extremes(dtype: torch.dtype) -> list[Tensor]:
    """Return the largest and smallest finite values, subnormals and zeros, in several sizes."""
    info = torch.finfo(dtype)
    torch.set_flush_denormal(False)  # XLA's runtime may have enabled the flushing of subnormals.
    values = torch.tensor([info.max, info.min, info.tiny, info.smallest_normal / 4, 0.0, -0.0], dtype=dtype)
    assert values[3] != 0
    return [values.repeat(190)[:size] for size in (6, 7, 64, 1100)]


NUMBERS: dict[str, Callable[[torch.dtype], list[Tensor]]] = {
    "random": lambda dtype: [
        torch.randn(shape, dtype=dtype) * 3 for shape in ((), (0,), (3, 5), (1100,), (40_000,), (7, 0))
    ],
    "extremes": extremes,
    "zeros": lambda dtype: [torch.zeros(3, dtype=dtype)],
    "an infinity": lambda dtype: [torch.ones(40_000, dtype=dtype), torch.tensor([-INF, 1], dtype=dtype)],
    "a NaN": lambda dtype: [torch.ones(40_000, dtype=dtype), torch.tensor([NAN, 1], dtype=dtype)],
    "both": lambda dtype: [torch.tensor([INF, NAN], dtype=dtype)],
    "huge": lambda dtype: [torch.randn(9, dtype=dtype) * 1e30],
    "tiny": lambda dtype: [torch.randn(9, dtype=dtype) * 1e-30],
    "huge, of two dtypes": lambda dtype: [torch.randn(9, dtype=each) * 1e30 for each in (BF16, dtype)],
    "tiny, of two dtypes": lambda dtype: [torch.randn(9, dtype=each) * 1e-30 for each in (BF16, dtype)],
}


@pytest.mark.parametrize(
    ("numbers", "dtype", "norm_type"),
    [
        *((numbers, F32, norm_type) for numbers in list(NUMBERS)[:8] for norm_type in (2.0, INF)),
        *((numbers, dtype, 2.0) for numbers in ("random", "extremes") for dtype in (F64, BF16, HALF)),
        *((f"{size}, of two dtypes", F64, norm_type) for size in ("huge", "tiny") for norm_type in (2.0, INF)),
    ],
    ids=str,
)
def test_norms_match_float64(numbers: str, dtype: torch.dtype, norm_type: float, operators: Kernels) -> None:
    """``norm`` matches a norm in float64. A norm that overflows its dtype is infinite, even of finite elements."""
    needs(dtype, operators)
    if numbers[:4] in ("huge", "tiny") and operators not in (Kernels("cpu"), Kernels("xla")):
        pytest.skip(f"{operators} has PyTorch's own kernels, which have less range")
    torch.manual_seed(0)
    tensors = NUMBERS[numbers](dtype)
    wide = torch.cat([tensor.double().view(-1) for tensor in tensors])
    most = wide.abs().max() if wide.any() and wide.isfinite().all() else 1.0
    wanted = torch.linalg.vector_norm(wide / most, norm_type) * most
    given, zero = [tensor.to(operators.device) for tensor in tensors], torch.zeros((), device=operators.device)
    norm, found_inf, non_finite = on_host(OP.norm(given, norm_type == INF))
    flags = [float(not tensor.isfinite().all()) for tensor in tensors]
    assert (norm.dtype, found_inf.item(), non_finite.tolist()) == (F64 if dtype is F64 else F32, max(flags), flags)
    rtol = 1e-12 if dtype is F64 else 1e-5 if operators == Kernels("cpu") else 1e-4
    scale = 2.0**100 if facts_of(operators.device).has_float64 else 4.0  # Without float64, large norms overflow.
    divided = OP.norm(given, norm_type == INF, zero + scale)[0].cpu()
    for found, exact in ((norm, wanted), (divided, wanted.to(norm.dtype) / 4 if scale == 4 else wanted / scale)):
        torch.testing.assert_close(found.double(), exact.to(norm.dtype).double(), rtol=rtol, atol=0, equal_nan=True)
    if numbers == "extremes" and norm_type == 2:
        assert [item.tolist() for item in OP.find_non_finite(given)] == [0, flags]
        assert OP.unscale_(given, zero, zero + 4).tolist() == flags
        assert zero.item() == 0


@pytest.mark.parametrize("dtype", [F32, F64, BF16, HALF], ids=str)
def test_unscaling_changes_versions_and_never_resets_found_inf(dtype: torch.dtype, operators: Kernels) -> None:
    """``unscale_`` accepts strided layouts, increases the versions of tensors, and never resets ``found_inf``.

    A float64 factor is not rounded to float32 for float64 gradients.
    """
    needs(dtype, operators)
    torch.manual_seed(0)
    number = torch.tensor(0.125) if dtype is not F64 else torch.tensor(1, dtype=F64) / 3
    tensors = [torch.randn(shape, dtype=dtype) for shape in ((), (0,), (1100,), (6, 4), (2, 3, 4, 5))]
    tensors = [tensor.to(operators.device) for tensor in tensors]
    tensors[3:] = [tensors[3].t(), tensors[4][:, ::2]]
    wanted, versions = [tensor * number.item() for tensor in tensors], [tensor._version for tensor in tensors]
    found_inf, factor = torch.zeros(1, device=operators.device), number.view(1).to(operators.device)
    OP.unscale_(tensors, found_inf, factor)
    torch.testing.assert_close(tensors, wanted, rtol=0, atol=0)
    assert found_inf.item() == 0
    assert all(tensor._version > version for tensor, version in zip(tensors, versions, strict=True))
    tensors[2][77] = NAN
    version = found_inf._version
    assert OP.unscale_(tensors, found_inf, factor).tolist() == [0, 0, 1, 0, 0]
    OP.unscale_(tensors[:2], found_inf, factor)
    assert found_inf.item() == 1
    assert found_inf._version > version
