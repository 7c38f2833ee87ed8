"""Errors of 100 steps against float64, beside the errors of torch.optim's for-loop on the same numbers."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from tests.optimizers import FOR_LOOP, OPTIONS, OURS, PATHS, THEIRS, Options, combinations

F32, F64, BF16, HALF = torch.float32, torch.float64, torch.bfloat16, torch.float16
# The largest error of one tensor is the end of one random walk, and differs by a tenth from one rounding to the next;
# its mean over many tensors does not. The mean error of SGD needs most of them to be known to a hundredth.
TENSORS = {"SGD": 130, "Adam": 40, "AdamW": 40}
ELEMENTS, STEPS = 250, 100
ALLOWED_MEAN, ALLOWED_MAXIMUM = 1.01, 1.05


class Errors(NamedTuple):
    """The mean over all elements, and the maximum of a tensor's elements, at every tenth step."""

    mean: float
    maximum: float


def gradients(name: str, dtype: torch.dtype) -> list[Tensor]:
    """Return gradients that grow and shrink: amsgrad's maximum is neither always nor never the newest square."""
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(TENSORS[name], ELEMENTS, generator=generator) * (1 + step % 7) / 7).to(dtype)
        for step in range(STEPS)
    ]


def start(name: str, dtype: torch.dtype) -> Tensor:
    return torch.linspace(-2, 2, TENSORS[name] * ELEMENTS).view(-1, ELEMENTS).to(dtype)


def run(optimizer: Any, options: Options, first: Tensor, grads: list[Tensor]) -> Tensor:
    """Return the parameter after each tenth step, in float64."""
    param = first.clone().requires_grad_()
    stepper = optimizer([param], **{"lr": 0.01, **options})
    found = []
    for number, grad in enumerate(grads):
        param.grad = grad
        stepper.step()
        if number % 10 == 9:
            found.append(param.detach().to(F64, copy=True))
    return torch.stack(found)


def errors(found: Tensor, wanted: Tensor) -> Errors:
    differences = found.sub(wanted).abs()
    assert differences.isfinite().all()
    return Errors(differences.mean().item(), differences.amax(-1).mean().item())


def assert_ratios(name: str, table: list[Options], dtype: torch.dtype, **ours: Any) -> None:
    """Assert that the errors are within the allowed ratios to the for-loop's, for both paths."""
    grads = gradients(name, dtype)
    reference = [grad.double() for grad in grads]
    above = []
    for options in table:
        wanted = run(THEIRS[name], {**options, **FOR_LOOP}, start(name, dtype).double(), reference)
        theirs = errors(run(THEIRS[name], {**options, **FOR_LOOP}, start(name, dtype), grads), wanted)
        for path, kernels in PATHS.items():
            with kernels():
                found = errors(run(OURS[name], {**options, **ours}, start(name, dtype), grads), wanted)
            mean, maximum = found.mean / theirs.mean, found.maximum / theirs.maximum
            if mean > ALLOWED_MEAN or maximum > ALLOWED_MAXIMUM:
                above.append(f"{path}: mean {mean:.4f}, maximum {maximum:.4f} times the for-loop's: {options}")
    assert not above, "\n".join(above)


@pytest.mark.parametrize("name", OURS)
def test_every_combination_of_options(name: str) -> None:
    assert_ratios(name, OPTIONS[name], F32)


LOW = {
    "SGD": combinations(momentum=[0, 0.9], weight_decay=[0, 0.1], dampening=[0, 0.3]),
    # Torch's own states of float16 need a large eps: the squares of small gradients vanish in them.
    "Adam": combinations(amsgrad=[False, True], weight_decay=[0, 0.1], eps=[1e-3]),
    "AdamW": combinations(amsgrad=[False, True], weight_decay=[0, 0.1], eps=[1e-3]),
}


@pytest.mark.parametrize("dtype", [BF16, HALF], ids=str)
@pytest.mark.parametrize("name", OURS)
def test_states_of_float32(name: str, dtype: torch.dtype) -> None:
    assert_ratios(name, LOW[name], dtype, state_dtype=F32)


@pytest.mark.parametrize("name", OURS)
def test_states_of_the_parameters_type(name: str) -> None:
    assert_ratios(name, LOW[name], BF16)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", OURS)
def test_float64(name: str, path: str) -> None:
    """Within a few roundings of the for-loop, which is the reference of the other tests."""
    grads = gradients(name, F64)
    for options in LOW[name]:
        wanted = run(THEIRS[name], {**options, **FOR_LOOP}, start(name, F64), grads)
        with PATHS[path]():
            found = run(OURS[name], options, start(name, F64), grads)
        torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-14)
