"""The rounding errors of 100 optimizer steps, compared with the errors of ``torch.optim``'s for-loop."""

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.devices import synchronize
from tests.support.optimizers import FOR_LOOP, OURS, THEIRS, Kernels, Options

F32, F64, BF16, HALF = torch.float32, torch.float64, torch.bfloat16, torch.float16
# The error of one element is random, but the mean over 32,500 elements is exact to 1 %.
ELEMENTS, STEPS, ALLOWED = 32_500, 100, 1.01
# These options suffice, because the random programs draw every combination. Without weight decay, AdamW equals Adam.
IN_FLOAT32: list[tuple[str, Options]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"betas": (0.3, 0.7), "eps": 1e-3}),
    ("AdamW", {"weight_decay": 0.1}),
]
# PyTorch's states in float16 need a large `eps`, because the squares of small gradients underflow to zero.
LOW: list[tuple[str, Options]] = [
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "dampening": 0.3}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "eps": 1e-3}),
]
DTYPES = [(BF16, F32), (HALF, F32), (BF16, None)]  # A row has the dtypes of parameters and of state.
CASES = [(*row, F32, None) for row in IN_FLOAT32] + [(*row, *dtypes) for row in LOW for dtypes in DTYPES]


def run(make: Any, options: Options, numbers: torch.dtype, dtype: torch.dtype, device: str = "cpu") -> Tensor:
    """Return every tenth value of a parameter, in float64. Initial values and gradients are rounded to ``numbers``."""
    generator = torch.Generator().manual_seed(0)
    param = torch.linspace(-2, 2, ELEMENTS).to(numbers).to(device, dtype, copy=True).requires_grad_()
    optimizer, found = make([param], **{"lr": 0.01, **options}), []
    for number in range(STEPS):
        # Gradients grow and shrink, so that `amsgrad`'s maximum is the newest average in some steps only.
        grad = torch.randn(ELEMENTS, generator=generator) * (1 + number % 7) / 7
        param.grad = grad.to(numbers).to(device, dtype)
        optimizer.step()
        synchronize(device)  # On XLA, each step must be a separate graph.
        if number % 10 == 9:
            found.append(param.detach().to("cpu", F64, copy=True))
    return torch.stack(found)


@cache
def oracle(name: str, options: tuple[tuple[str, Any], ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the result of ``torch.optim``'s for-loop in float64, and its errors in the given dtype."""
    for_loop = {**dict(options), **FOR_LOOP}
    wanted = run(THEIRS[name], for_loop, dtype, F64)
    return wanted, (run(THEIRS[name], for_loop, dtype, dtype) - wanted).abs()


@pytest.mark.parametrize(("name", "options", "dtype", "state_dtype"), CASES, ids=str)
def test_rounding_errors_are_as_small_as_in_the_for_loop(
    name: str, options: Options, dtype: torch.dtype, state_dtype: torch.dtype | None, kernels: Kernels
) -> None:
    # In steps that `torch.optim` runs, the `foreach` implementation would round differently from the for-loop.
    given = {**options, "state_dtype": state_dtype, "foreach": False}
    wanted, theirs = oracle(name, tuple(options.items()), dtype)
    ours = (run(OURS[name], given, dtype, dtype, kernels.device) - wanted).abs()
    assert ours.mean() <= ALLOWED * theirs.mean()
