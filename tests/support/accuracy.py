"""Errors of 100 steps against float64, on numbers that are the same for all."""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tests.support.devices import synchronize
from tests.support.optimizers import FOR_LOOP, THEIRS, Options

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


def run(optimizer: Any, options: Options, first: Tensor, grads: list[Tensor], device: str = "cpu") -> Tensor:
    """Return the parameter after each tenth step, in float64 on the host."""
    param = first.to(device, copy=True).requires_grad_()
    stepper = optimizer([param], **{"lr": 0.01, **options})
    found = []
    for number, grad in enumerate(grads):
        param.grad = grad.to(device)
        stepper.step()
        synchronize(device)  # on XLA, each step is a graph
        if number % 10 == 9:
            found.append(param.detach().to("cpu", torch.float64, copy=True))
    return torch.stack(found)


def errors(found: Tensor, wanted: Tensor) -> Errors:
    differences = found.sub(wanted).abs()
    assert differences.isfinite().all()
    return Errors(differences.mean().item(), differences.amax(-1).mean().item())


@cache
def oracle(name: str, options: tuple[tuple[str, Any], ...], dtype: torch.dtype) -> tuple[Tensor, Errors]:
    """Return what torch.optim's for-loop gives in float64, and its errors in that dtype."""
    grads, for_loop = gradients(name, dtype), {**dict(options), **FOR_LOOP}
    wanted = run(THEIRS[name], for_loop, start(name, dtype).double(), [grad.double() for grad in grads])
    return wanted, errors(run(THEIRS[name], for_loop, start(name, dtype), grads), wanted)


def too_large(name: str, options: Options, dtype: torch.dtype, found: Tensor) -> list[str]:
    """Return what is above the allowed ratios to the errors of torch.optim's for-loop in that dtype."""
    wanted, theirs = oracle(name, tuple(options.items()), dtype)
    ours = errors(found, wanted)
    mean, maximum = ours.mean / theirs.mean, ours.maximum / theirs.maximum
    if mean > ALLOWED_MEAN or maximum > ALLOWED_MAXIMUM:
        return [f"mean {mean:.4f}, maximum {maximum:.4f} times the for-loop's: {options}"]
    return []
