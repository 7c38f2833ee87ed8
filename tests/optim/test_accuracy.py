"""Errors of 100 steps against float64, beside the errors of torch.optim's for-loop on the same numbers."""

import pytest
import torch

from tests.support.accuracy import gradients, run, start, too_large
from tests.support.devices import has_float64
from tests.support.optimizers import FOR_LOOP, OURS, THEIRS, Kernels, Options

F32, F64, BF16, HALF = torch.float32, torch.float64, torch.bfloat16, torch.float16
NAMES = pytest.mark.parametrize("name", OURS)
# The random programs draw every combination. Without weight decay AdamW is Adam.
IN_FLOAT32: dict[str, list[Options]] = {
    "SGD": [
        {},
        {"momentum": 0.9, "weight_decay": 0.1},
        {"momentum": 0.9, "nesterov": True, "maximize": True},
        {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    ],
    "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1, "maximize": True}, {"betas": (0.3, 0.7), "eps": 1e-3}],
    "AdamW": [{"weight_decay": 0.1}, {"weight_decay": 0.1, "amsgrad": True, "betas": (0.3, 0.7), "eps": 1e-3}],
}
# Torch's own states of float16 need a large eps: the squares of small gradients vanish in them.
LOW: dict[str, list[Options]] = {
    "SGD": [{"momentum": 0.9, "weight_decay": 0.1}, {"momentum": 0.9, "dampening": 0.3}],
    "Adam": [{"amsgrad": True, "weight_decay": 0.1, "eps": 1e-3}],
    "AdamW": [{"weight_decay": 0.1, "eps": 1e-3}],
}


@pytest.mark.parametrize(
    ("dtype", "state_dtype"), [(F32, None), (BF16, F32), (HALF, F32), (BF16, None)], ids=lambda dtype: str(dtype)[6:]
)
@NAMES
def test_errors_are_those_of_the_for_loop(
    name: str, dtype: torch.dtype, state_dtype: torch.dtype | None, kernels: Kernels
) -> None:
    grads, texts = gradients(name, dtype), []
    for options in (IN_FLOAT32 if dtype is F32 else LOW)[name]:
        # Where torch.optim takes the step, its implementation over lists rounds otherwise.
        ours = {**options, "state_dtype": state_dtype, "foreach": False}
        texts += too_large(name, options, dtype, run(OURS[name], ours, start(name, dtype), grads, kernels.device))
    assert not texts, "\n".join(texts)


@NAMES
def test_steps_in_float64(name: str, kernels: Kernels) -> None:
    """Within a few roundings of the for-loop, which is the reference of the other tests."""
    if not has_float64(kernels.device):
        pytest.skip(f"{kernels} has no float64")
    grads = gradients(name, F64)
    for options in LOW[name]:
        wanted = run(THEIRS[name], {**options, **FOR_LOOP}, start(name, F64), grads)
        found = run(OURS[name], options, start(name, F64), grads, kernels.device)
        torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-14)
