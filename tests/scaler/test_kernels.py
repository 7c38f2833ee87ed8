"""check, norm and unscale_: what is not finite is found wherever it is, and nothing else is; norms are right."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from testing.optimizers import PATHS

F32, F64, BF16, HALF, C64 = torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64
NON_FINITE = (float("nan"), float("inf"), float("-inf"))
SIZES = (0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 257, 1023, 1024, 1025, 1100)
OP = torch.ops.polycast

each_type = pytest.mark.parametrize("dtype", [F32, F64, BF16, HALF, C64], ids=str)
each_path = pytest.mark.parametrize("path", PATHS)


def real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor).view(-1) if tensor.is_complex() else tensor.view(-1)


@each_path
@each_type
def test_one_element_is_found_at_every_position(dtype: torch.dtype, path: str) -> None:
    """One tensor for each position, unaligned ones too; the answer names each of them."""
    sizes = SIZES[1:] if path == "fused" else (1, 9, 17)
    for value, size, offset in itertools.product(NON_FINITE, sizes, (0, 1, 3)):
        memory = torch.ones(size, size + 4, dtype=dtype)
        rows = [row[offset : offset + size] for row in memory.unbind()]
        memory[:, offset : offset + size].fill_diagonal_(complex(1, value) if dtype.is_complex else value)
        with PATHS[path]():
            assert_found(rows if size < 300 else rows[:: size // 64], torch.ones(size, dtype=dtype))


def assert_found(rows: list[Tensor], finite: Tensor) -> None:
    """Assert that each row is found, and the finite tensor between them is not."""
    middle = len(rows) // 2
    tensors, found_inf = [*rows[:middle], finite, *rows[middle:]], torch.zeros(())
    wanted = torch.ones(len(tensors))
    wanted[middle] = 0
    assert OP.find_non_finite(tensors)[1].equal(wanted)
    assert OP.norm(tensors, 2.0)[2].equal(wanted)
    assert OP.unscale_(tensors, found_inf, torch.ones(())).equal(wanted)
    assert found_inf.item() == 1


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_every_size_and_every_position(dtype: torch.dtype) -> None:
    """All of 0 to 1100: the bad element moves through the sizes, so that each block and each remainder is met."""
    for value in NON_FINITE:
        memory = torch.ones(1101, dtype=dtype)
        for size in range(1101):
            tensor = memory[1101 - size :]
            assert not OP.find_non_finite([tensor])[0]
            for position in {0, size // 2, size - 1} if size else ():
                tensor[position] = value
                assert OP.find_non_finite([tensor])[0]
                tensor[position] = 1
    whole = torch.ones(1100, dtype=dtype)
    for position in range(1100):
        whole[position] = NON_FINITE[position % 3]
        assert OP.find_non_finite([whole])[0]
        whole[position] = 1


@pytest.fixture
def subnormals() -> None:
    """Take subnormals for numbers: XLA's runtime leaves the thread that loads it in a mode that takes them for zero."""
    torch.set_flush_denormal(False)


def extremes(dtype: torch.dtype) -> Tensor:
    """Return the largest and smallest finite values, subnormals and zeros."""
    info = torch.finfo(dtype)
    numbers = [info.max, info.min, info.tiny, info.smallest_normal / 4, 0.0, -0.0]
    values = torch.tensor(numbers, dtype=dtype.to_real() if dtype.is_complex else dtype)
    assert values[3] != 0
    return (torch.complex(values, values.flip(0)) if dtype.is_complex else values).repeat(190)


@pytest.mark.usefixtures("subnormals")
@each_path
@each_type
def test_the_largest_and_the_smallest_values_are_finite(dtype: torch.dtype, path: str) -> None:
    with PATHS[path]():
        for size in (6, 7, 64, 1100):
            tensor = extremes(dtype)[:size]
            found_inf = torch.zeros(())
            assert [item.tolist() for item in OP.find_non_finite([tensor])] == [0.0, [False]]
            for norm_type in (1.0, 2.0, 3.0, math.inf):
                assert [item.tolist() for item in OP.norm([tensor], norm_type)[1:]] == [0.0, [False]]
            OP.unscale_([tensor], found_inf, torch.tensor(4.0))
            assert found_inf.item() == 0


@each_path
@each_type
@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, 0.5, math.inf])
def test_norms(norm_type: float, dtype: torch.dtype, path: str) -> None:
    torch.manual_seed(0)
    shapes: list[tuple[int, ...]] = [(), (0,), (3, 5), (1100,), (40_000,), (7, 0)]
    rtol = 1e-12 if dtype is F64 else 1e-5 if path == "fused" else 1e-4  # torch's own sum, in one thread
    for tensors in ([torch.randn(shape, dtype=dtype) * 3 for shape in shapes], [torch.zeros(3, dtype=dtype)]):
        wide = [tensor.to(torch.complex128 if dtype.is_complex else F64).view(-1) for tensor in tensors]
        wanted = torch.linalg.vector_norm(torch.cat(wide), norm_type)
        with PATHS[path]():
            norm, found_inf, non_finite = OP.norm(tensors, norm_type)
        assert norm.dtype == (F64 if dtype is F64 else F32)
        assert not found_inf.any()
        assert not non_finite.any()
        torch.testing.assert_close(norm.double(), wanted, rtol=rtol, atol=0)


@each_path
@pytest.mark.parametrize("dtype", [F32, BF16, HALF, C64], ids=str)
def test_a_norm_near_the_largest_and_the_smallest_value_is_finite_and_not_0(dtype: torch.dtype, path: str) -> None:
    info = torch.finfo(dtype)
    for value in (info.smallest_normal, info.max / 8):
        tensors = [
            torch.full((16,), value, dtype=dtype),
            torch.zeros(5, dtype=dtype),
            -torch.full((4,), value).to(dtype),
        ]
        with PATHS[path]():
            norm, found_inf, _ = OP.norm(tensors, 2.0)
        assert found_inf.item() == 0
        torch.testing.assert_close(norm.item(), abs(tensors[0][0].item()) * math.sqrt(20), rtol=1e-6, atol=0)


@each_path
@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("values", [[1, math.inf], [math.nan, 1], [math.inf, math.nan], [-math.inf, 1]])
def test_norms_of_what_is_not_finite_are_torchs(values: list[float], norm_type: float, path: str) -> None:
    tensors = [torch.ones(40_000), torch.tensor(values)]
    with PATHS[path]():
        norm, found_inf, non_finite = OP.norm(tensors, norm_type)
    torch.testing.assert_close(norm, torch.linalg.vector_norm(tensors[1], norm_type), equal_nan=True)
    assert (found_inf.item(), non_finite.tolist()) == (1, [False, True])


@each_path
@each_type
def test_unscaling(dtype: torch.dtype, path: str) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(shape, dtype=dtype) for shape in ((), (0,), (1100,), (3, 5))]
    tensors += [torch.randn(6, 4, dtype=dtype).t(), torch.randn(2, 3, 4, 5, dtype=dtype)[:, ::2]]
    wanted = [(tensor * 0.125).clone() for tensor in tensors]
    versions = [tensor._version for tensor in tensors]
    found_inf = torch.zeros(1)
    with PATHS[path]():
        OP.unscale_(tensors, found_inf, torch.tensor([0.125]))
        torch.testing.assert_close(tensors, wanted, rtol=0, atol=0)
        assert found_inf.item() == 0
        assert all(tensor._version > version for tensor, version in zip(tensors, versions, strict=True))
        tensors[2][77] = math.nan
        version = found_inf._version
        assert OP.unscale_(tensors, found_inf, torch.ones(())).tolist() == [False, False, True, False, False, False]
        assert found_inf.item() == 1
        assert found_inf._version > version
        OP.unscale_(tensors[:2], found_inf, torch.ones(()))
        assert found_inf.item() == 1


@each_path
def test_gradients_of_float64_are_multiplied_by_a_factor_of_float64(path: str) -> None:
    """A factor of float32 is one third in its first 8 digits only."""
    tensors, third = [torch.ones(3, dtype=F64), torch.ones(2, dtype=F32)], torch.tensor(1, dtype=F64) / 3
    with PATHS[path]():
        OP.unscale_(tensors, torch.zeros(()), third)
    assert [tensor.tolist() for tensor in tensors] == [[third.item()] * 3, [third.float().item()] * 2]
