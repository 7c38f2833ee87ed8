"""Errors of 100 steps against float64, beside the errors of torch.optim's for-loop on the same numbers."""

from typing import Any

import pytest
import torch

from testing.accuracy import gradients, run, start, too_large
from testing.optimizers import FOR_LOOP, OPTIONS, OURS, PATHS, THEIRS, Options, combinations

F32, F64, BF16, HALF = torch.float32, torch.float64, torch.bfloat16, torch.float16
NAMES = pytest.mark.parametrize("name", OURS)


def assert_ratios(name: str, table: list[Options], dtype: torch.dtype, **ours: Any) -> None:
    """Assert that the errors are within the allowed ratios to the for-loop's, for both paths."""
    grads, texts = gradients(name, dtype), []
    for options in table:
        runs = {}
        for path, kernels in PATHS.items():
            with kernels():
                runs[path] = run(OURS[name], {**options, **ours}, start(name, dtype), grads)
        texts += too_large(name, options, dtype, runs)
    assert not texts, "\n".join(texts)


@NAMES
def test_errors_of_every_combination_of_options(name: str) -> None:
    assert_ratios(name, OPTIONS[name], F32)


LOW = {
    "SGD": combinations(momentum=[0, 0.9], weight_decay=[0, 0.1], dampening=[0, 0.3]),
    # Torch's own states of float16 need a large eps: the squares of small gradients vanish in them.
    "Adam": combinations(amsgrad=[False, True], weight_decay=[0, 0.1], eps=[1e-3]),
    "AdamW": combinations(amsgrad=[False, True], weight_decay=[0, 0.1], eps=[1e-3]),
}


@pytest.mark.parametrize("dtype", [BF16, HALF], ids=str)
@NAMES
def test_errors_with_states_of_float32(name: str, dtype: torch.dtype) -> None:
    assert_ratios(name, LOW[name], dtype, state_dtype=F32)


@NAMES
def test_errors_with_states_of_the_parameters_type(name: str) -> None:
    assert_ratios(name, LOW[name], BF16)


@pytest.mark.parametrize("path", PATHS)
@NAMES
def test_steps_in_float64(name: str, path: str) -> None:
    """Within a few roundings of the for-loop, which is the reference of the other tests."""
    grads = gradients(name, F64)
    for options in LOW[name]:
        wanted = run(THEIRS[name], {**options, **FOR_LOOP}, start(name, F64), grads)
        with PATHS[path]():
            found = run(OURS[name], options, start(name, F64), grads)
        torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-14)
