"""Errors of 100 steps on XLA against float64, beside the errors of torch.optim's for-loop on the same numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.optim.test_accuracy import ALLOWED_MAXIMUM, ALLOWED_MEAN, errors, gradients, run, start
from tests.optimizers import FOR_LOOP, OURS, THEIRS, Options
from tests.probe import HAS_XLA, NO_XLA
from tests.xla import sync

pytestmark = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)

# Without weight decay AdamW is Adam.
CASES: list[tuple[str, Options]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    ("SGD", {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"betas": (0.3, 0.7), "eps": 1e-3}),
    ("AdamW", {"weight_decay": 0.1}),
    ("AdamW", {"weight_decay": 0.1, "amsgrad": True, "betas": (0.3, 0.7), "eps": 1e-3}),
]


def run_on_xla(optimizer: Any, options: Options, first: Tensor, grads: list[Tensor]) -> Tensor:
    """Do what ``run`` does on XLA, a graph for each step."""
    param = first.to("xla").requires_grad_()
    stepper = optimizer([param], **{"lr": 0.01, **options})
    found = []
    for number, grad in enumerate(grads):
        param.grad = grad.to("xla")
        stepper.step()
        sync()
        if number % 10 == 9:
            found.append(param.detach().cpu().double())
    return torch.stack(found)


def ratios(name: str, options: Options, dtype: torch.dtype = torch.float32) -> tuple[float, float]:
    """Return the mean and the maximum of our errors on XLA over those of the for-loop on the host."""
    grads, first = gradients(name, dtype), start(name, dtype)

    def trained(kind: torch.dtype) -> Tensor:
        return run(THEIRS[name], options | FOR_LOOP, first.to(kind), [grad.to(kind) for grad in grads])

    wanted = trained(torch.float64)
    theirs = errors(trained(dtype), wanted)
    ours = errors(run_on_xla(OURS[name], options, first, grads), wanted)
    return ours.mean / theirs.mean, ours.maximum / theirs.maximum


@pytest.mark.parametrize(("name", "options"), CASES)
def test_errors_are_those_of_the_for_loop(name: str, options: Options) -> None:
    mean, maximum = ratios(name, options)
    assert (mean <= ALLOWED_MEAN, maximum <= ALLOWED_MAXIMUM) == (True, True), (mean, maximum)
