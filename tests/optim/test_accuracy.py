"""Errors of 100 steps against float64, beside the errors of torch.optim's for-loop on the same numbers."""

from typing import Any

import pytest
import torch

from tests.support.accuracy import gradients, run, start, too_large
from tests.support.devices import has_float64
from tests.support.optimizers import FOR_LOOP, OPTIONS, OURS, THEIRS, Kernels, Options, combinations

F32, F64, BF16, HALF = torch.float32, torch.float64, torch.bfloat16, torch.float16
NAMES = pytest.mark.parametrize("name", OURS)
# What devices compute that take long for it. Without weight decay AdamW is Adam.
FEW: dict[str, list[Options]] = {
    "SGD": [
        {},
        {"momentum": 0.9, "weight_decay": 0.1},
        {"momentum": 0.9, "nesterov": True, "maximize": True},
        {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    ],
    "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1, "maximize": True}, {"betas": (0.3, 0.7), "eps": 1e-3}],
    "AdamW": [{"weight_decay": 0.1}, {"weight_decay": 0.1, "amsgrad": True, "betas": (0.3, 0.7), "eps": 1e-3}],
}


def assert_ratios(name: str, table: list[Options], dtype: torch.dtype, device: str, **ours: Any) -> None:
    """Assert that the errors are within the allowed ratios to the for-loop's."""
    grads, texts = gradients(name, dtype), []
    for options in table:
        # Where torch.optim takes the step, its implementation over lists rounds otherwise.
        found = run(OURS[name], {**options, **ours, "foreach": False}, start(name, dtype), grads, device)
        texts += too_large(name, options, dtype, found)
    assert not texts, "\n".join(texts)


@NAMES
def test_errors_of_every_combination_of_options(name: str, kernels: Kernels) -> None:
    assert_ratios(name, OPTIONS[name] if kernels.device == "cpu" else FEW[name], F32, kernels.device)


LOW = {
    "SGD": combinations(momentum=[0, 0.9], weight_decay=[0, 0.1], dampening=[0, 0.3]),
    # Torch's own states of float16 need a large eps: the squares of small gradients vanish in them.
    "Adam": combinations(amsgrad=[False, True], weight_decay=[0, 0.1], eps=[1e-3]),
    "AdamW": combinations(amsgrad=[False, True], weight_decay=[0, 0.1], eps=[1e-3]),
}


def low(name: str, kernels: Kernels) -> list[Options]:
    return LOW[name] if kernels.device == "cpu" else LOW[name][-1:]


@pytest.mark.parametrize("dtype", [BF16, HALF], ids=str)
@NAMES
def test_errors_with_states_of_float32(name: str, dtype: torch.dtype, kernels: Kernels) -> None:
    assert_ratios(name, low(name, kernels), dtype, kernels.device, state_dtype=F32)


@NAMES
def test_errors_with_states_of_the_parameters_type(name: str, kernels: Kernels) -> None:
    assert_ratios(name, low(name, kernels), BF16, kernels.device)


@NAMES
def test_steps_in_float64(name: str, kernels: Kernels) -> None:
    """Within a few roundings of the for-loop, which is the reference of the other tests."""
    if not has_float64(kernels.device):
        pytest.skip(f"{kernels} has no float64")
    grads = gradients(name, F64)
    for options in low(name, kernels):
        wanted = run(THEIRS[name], {**options, **FOR_LOOP}, start(name, F64), grads)
        found = run(OURS[name], options, start(name, F64), grads, kernels.device)
        torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-14)
