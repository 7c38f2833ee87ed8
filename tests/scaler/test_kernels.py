"""check, norm and unscale_: what is not finite is found wherever it is, and nothing else is; norms are right."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from tests.support.devices import has_float64
from tests.support.optimizers import Kernels, on_host

F32, F64, BF16, HALF = torch.float32, torch.float64, torch.bfloat16, torch.float16
NON_FINITE = (float("nan"), float("inf"), float("-inf"))
SIZES = (0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 257, 1023, 1024, 1025, 1100)
OP = torch.ops.polycast

each_type = pytest.mark.parametrize("dtype", [F32, F64, BF16, HALF], ids=str)


def needs(dtype: torch.dtype, operators: Kernels) -> None:
    if dtype is F64 and not has_float64(operators.device):
        pytest.skip(f"{operators} has no float64")


def needs_ours(device: str) -> None:
    if device not in ("cpu", "xla"):
        pytest.skip(f"{device} has torch's own kernels, of less range or precision")


@each_type
def test_one_element_is_found_at_every_position(dtype: torch.dtype, operators: Kernels) -> None:
    """One tensor for each position, unaligned ones too; the answer names each of them."""
    needs(dtype, operators)
    sizes = SIZES[1:] if operators == Kernels("cpu") else (1, 9, 17) if operators.device == "cpu" else (9,)
    for value, size, offset in itertools.product(NON_FINITE, sizes, (0, 1, 3)):
        memory = torch.ones(size, size + 4, dtype=dtype)
        memory[:, offset : offset + size].fill_diagonal_(value)
        rows = [row[offset : offset + size] for row in memory.to(operators.device).unbind()]
        finite = torch.ones(size, dtype=dtype, device=operators.device)
        assert_found(rows if size < 300 else [*rows[:: size // 64], rows[-1]], finite)


def assert_found(rows: list[Tensor], finite: Tensor) -> None:
    """Assert that each row is found, and the finite tensor between them is not."""
    middle = len(rows) // 2
    tensors, found_inf = [*rows[:middle], finite, *rows[middle:]], torch.zeros((), device=finite.device)
    wanted = torch.ones(len(tensors))
    wanted[middle] = 0
    assert OP.find_non_finite(tensors)[1].cpu().equal(wanted)
    assert OP.norm(tensors, 2.0)[2].cpu().equal(wanted)
    assert OP.unscale_(tensors, found_inf, torch.ones((), device=finite.device)).cpu().equal(wanted)
    assert found_inf.item() == 1


@pytest.fixture
def subnormals() -> None:
    """Take subnormals for numbers: XLA's runtime leaves the thread that loads it in a mode that takes them for zero."""
    torch.set_flush_denormal(False)


def extremes(dtype: torch.dtype) -> Tensor:
    """Return the largest and smallest finite values, subnormals and zeros."""
    info = torch.finfo(dtype)
    numbers = [info.max, info.min, info.tiny, info.smallest_normal / 4, 0.0, -0.0]
    values = torch.tensor(numbers, dtype=dtype)
    assert values[3] != 0
    return values.repeat(190)


@pytest.mark.usefixtures("subnormals")
@each_type
def test_the_largest_and_the_smallest_values_are_finite(dtype: torch.dtype, operators: Kernels) -> None:
    needs(dtype, operators)
    for size in (6, 7, 64, 1100):
        tensor = extremes(dtype)[:size].to(operators.device)
        found_inf = torch.zeros((), device=operators.device)
        assert [item.tolist() for item in OP.find_non_finite([tensor])] == [0.0, [False]]
        for norm_type in (1.0, 2.0, 3.0, math.inf):
            assert [item.tolist() for item in OP.norm([tensor], norm_type)[1:]] == [0.0, [False]]
        OP.unscale_([tensor], found_inf, torch.tensor(4.0, device=operators.device))
        assert found_inf.item() == 0


@pytest.mark.parametrize(
    ("dtype", "norm_type"),
    [
        *((F32, norm_type) for norm_type in (1.0, 2.0, 3.0, 0.5, math.inf)),
        *((F64, norm_type) for norm_type in (2.0, 3.0)),
        *((BF16, norm_type) for norm_type in (2.0, math.inf)),
        *((HALF, norm_type) for norm_type in (1.0, 2.0)),
    ],
    ids=str,
)
def test_norms(norm_type: float, dtype: torch.dtype, operators: Kernels) -> None:
    needs(dtype, operators)
    torch.manual_seed(0)
    shapes: list[tuple[int, ...]] = [(), (0,), (3, 5), (1100,), (40_000,), (7, 0)]
    rtol = 1e-12 if dtype is F64 else 1e-5 if operators.device == "cpu" and operators.path == "fused" else 1e-4
    for tensors in ([torch.randn(shape, dtype=dtype) * 3 for shape in shapes], [torch.zeros(3, dtype=dtype)]):
        wide = [tensor.to(F64).view(-1) for tensor in tensors]
        wanted = torch.linalg.vector_norm(torch.cat(wide), norm_type)
        norm, found_inf, non_finite = on_host(OP.norm([tensor.to(operators.device) for tensor in tensors], norm_type))
        assert norm.dtype == (F64 if dtype is F64 else F32)
        assert not found_inf.any()
        assert not non_finite.any()
        torch.testing.assert_close(norm.double(), wanted, rtol=rtol, atol=0)


@pytest.mark.parametrize(
    ("norm_type", "dtypes"),
    [(0.5, (F32,)), (2.0, (F32,)), (2.0, (BF16, F64)), (20.0, (BF16, F64)), (math.inf, (F32,))],
    ids=str,
)
@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_norms_have_the_range_of_their_type(
    norm_type: float, dtypes: tuple[torch.dtype, ...], factor: float, real_device: str
) -> None:
    needs_ours(real_device)
    tensors = [torch.randn(9, dtype=dtype, generator=torch.Generator().manual_seed(0)) * factor for dtype in dtypes]
    total, found_inf, _ = OP.norm([tensor.to(real_device) for tensor in tensors], norm_type)
    wide = torch.cat([tensor.abs().double() for tensor in tensors])
    wanted = torch.linalg.vector_norm(wide / wide.max(), norm_type) * wide.max()
    torch.testing.assert_close(total.cpu(), wanted.to(F64 if F64 in dtypes else F32), rtol=1e-5, atol=0.0)
    assert found_inf.item() == 0.0


@pytest.mark.parametrize(
    ("norm_type", "values"),
    [
        (1.0, [-math.inf, 1]),
        (2.0, [1, math.inf]),
        (2.0, [math.inf, math.nan]),
        (3.0, [math.nan, 1]),
        (math.inf, [math.nan, 1]),
        (math.inf, [-math.inf, 1]),
    ],
)
def test_norms_of_what_is_not_finite_are_torchs(values: list[float], norm_type: float, operators: Kernels) -> None:
    tensors = [torch.ones(40_000), torch.tensor(values)]
    norm, found_inf, non_finite = OP.norm([tensor.to(operators.device) for tensor in tensors], norm_type)
    torch.testing.assert_close(norm.cpu(), torch.linalg.vector_norm(tensors[1], norm_type), equal_nan=True)
    assert (found_inf.item(), non_finite.tolist()) == (1, [False, True])


@each_type
def test_unscaling(dtype: torch.dtype, operators: Kernels) -> None:
    needs(dtype, operators)
    torch.manual_seed(0)
    tensors = [torch.randn(shape, dtype=dtype) for shape in ((), (0,), (1100,), (3, 5))]
    tensors += [torch.randn(6, 4, dtype=dtype), torch.randn(2, 3, 4, 5, dtype=dtype)]
    tensors = [tensor.to(operators.device) for tensor in tensors]
    tensors[4:] = [tensors[4].t(), tensors[5][:, ::2]]
    wanted = [(tensor * 0.125).clone() for tensor in tensors]
    versions = [tensor._version for tensor in tensors]
    found_inf, factor = torch.zeros(1, device=operators.device), torch.tensor([0.125]).to(operators.device)
    OP.unscale_(tensors, found_inf, factor)
    torch.testing.assert_close(tensors, wanted, rtol=0, atol=0)
    assert found_inf.item() == 0
    assert all(tensor._version > version for tensor, version in zip(tensors, versions, strict=True))
    tensors[2][77] = math.nan
    version, one = found_inf._version, torch.ones((), device=operators.device)
    assert OP.unscale_(tensors, found_inf, one).tolist() == [False, False, True, False, False, False]
    assert found_inf.item() == 1
    assert found_inf._version > version
    OP.unscale_(tensors[:2], found_inf, one)
    assert found_inf.item() == 1


def test_gradients_of_float64_are_multiplied_by_a_factor_of_float64(real_device: str) -> None:
    """A factor of float32 is one third in its first 8 digits only."""
    needs_ours(real_device)
    third = torch.tensor(1, dtype=F64) / 3
    tensors = [torch.ones(3, dtype=F64, device=real_device), torch.ones(2, dtype=F32, device=real_device)]
    OP.unscale_(tensors, torch.zeros((), device=real_device), third.to(real_device))
    assert [tensor.tolist() for tensor in tensors] == [[third.item()] * 3, [third.float().item()] * 2]
