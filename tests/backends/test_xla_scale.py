"""The operators of a gradient scaler on XLA."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
import torch
from polycast.backends.xla_kernels import scale as xla_scale

from testing.probe import HAS_XLA, NO_XLA
from testing.xla import DTYPES, random, xla

pytestmark = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)


CASES = [[1.0, 2.0], [math.inf, 1.0], [-math.inf], [math.nan, 0.0], [], [3e38, -3e38], [1e-45]]


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.5, math.inf])
def test_norm_and_check(norm_type: float) -> None:
    tensors = [torch.tensor(case, device=xla()) for case in CASES]
    expected = [not bool(torch.tensor(case).isfinite().all()) for case in CASES]
    found_inf, non_finite = xla_scale.find_non_finite(tensors)
    assert (found_inf.item(), found_inf.dtype, non_finite.tolist()) == (1.0, torch.float32, expected)
    finite = [tensor for tensor, bad in zip(tensors, expected, strict=True) if not bad]
    total, found_inf, non_finite = xla_scale.norm(finite, norm_type)
    assert (found_inf.item(), non_finite.any().item()) == (0.0, False)
    torch.testing.assert_close(
        total.cpu(), torch.linalg.vector_norm(torch.cat([t.cpu().double() for t in finite]), norm_type).float()
    )
    assert xla_scale.norm(tensors, norm_type)[1].item() == 1.0
    assert xla_scale.norm(tensors, norm_type)[0].isnan().item()
    without_nan = [tensor for tensor in tensors if not tensor.isnan().any()]
    assert xla_scale.norm(without_nan, norm_type)[0].item() == math.inf


@pytest.mark.parametrize("norm_type", [0.5, 2.0, 20.0, math.inf])
@pytest.mark.parametrize(
    "dtypes", [(torch.float32,), (torch.bfloat16, torch.float64), (torch.complex64, torch.float32)]
)
@pytest.mark.parametrize("factor", [1e-30, 1.0, 1e30])
def test_norms_have_the_range_of_their_type(norm_type: float, dtypes: Sequence[torch.dtype], factor: float) -> None:
    tensors = [torch.randn(9, dtype=dtype) * factor for dtype in dtypes]
    total, found_inf, _ = xla_scale.norm([tensor.to(xla()) for tensor in tensors], norm_type)
    wide = torch.cat([tensor.abs().double() for tensor in tensors])
    expected = torch.linalg.vector_norm(wide / wide.max(), norm_type) * wide.max()
    dtype = torch.float64 if torch.float64 in dtypes else torch.float32
    torch.testing.assert_close(total.cpu(), expected.to(dtype), rtol=1e-6, atol=0.0)
    assert found_inf.item() == 0.0


def test_norm_takes_a_positive_number() -> None:
    with pytest.raises(ValueError, match=r"norm: norm_type is -1.0; it takes a positive number, or infinity"):
        torch.ops.polycast.norm([torch.ones(1, device=xla())], -1.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unscale(dtype: torch.dtype) -> None:
    grads = [value.to(xla()) for value in random(dtype, 0)]
    found_inf, inv_scale = torch.zeros(1, device=xla()), torch.tensor(0.25, device=xla())
    assert xla_scale.unscale_(grads, found_inf, inv_scale).tolist() == [False] * len(grads)
    assert all(torch.equal(grad.cpu(), value / 4) for grad, value in zip(grads, random(dtype, 0), strict=True))
    assert found_inf.tolist() == [0.0]
    grads[1][2] = math.inf
    assert xla_scale.unscale_(grads, found_inf, inv_scale).tolist() == [False, True, False, False, False]
    xla_scale.unscale_(grads[:1], found_inf, inv_scale)
    assert found_inf.tolist() == [1.0]


def test_the_scale_has_a_floor_and_a_ceiling() -> None:
    scale, tracker = torch.tensor(8.0, device=xla()), torch.zeros((), dtype=torch.int32, device=xla())
    seen = []
    for found in [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0]:
        xla_scale.update_scale_(scale, tracker, torch.tensor(float(found), device=xla()), 2.0, 0.5, 2, 4.0, 16.0)
        seen.append((scale.item(), tracker.item()))
    scales, trackers = zip(*seen, strict=True)
    assert scales == (8.0, 16.0, 16.0, 16.0, 16.0, 16.0, 8.0, 4.0, 4.0, 4.0, 4.0, 8.0)
    assert trackers == (1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0)
    assert all(abs(math.log2(after / before)) <= 1 for before, after in pairwise(scales))


@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_an_interval_that_is_lowered_below_the_count_is_torchs_rule_everywhere(device: str) -> None:
    def states(update: Callable[..., object], device: str, *bounds: float) -> list[tuple[float, int]]:
        scale, tracker = torch.tensor(8.0, device=device), torch.tensor(0, dtype=torch.int32, device=device)
        seen = []
        for found, interval in ((0, 5), (0, 5), (0, 5), (0, 2), (0, 2), (1, 2), (0, 2), (0, 2)):
            update(scale, tracker, torch.tensor(float(found), device=device), 2.0, 0.5, interval, *bounds)
            seen.append((scale.item(), int(tracker.item())))
        return seen

    ours = states(torch.ops.polycast.update_scale_, device, 0.0, math.inf)
    assert ours == states(torch._amp_update_scale_, "cpu")
