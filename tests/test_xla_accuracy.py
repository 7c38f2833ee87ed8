"""Errors of 100 steps on XLA against float64, beside the errors of torch.optim's for-loop on the same numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.optimizers import FOR_LOOP, OURS, THEIRS, Options
from tests.probe import HAS_XLA, NO_XLA
from tests.test_optimizer_accuracy import ALLOWED_MAXIMUM, ALLOWED_MEAN, errors, gradients, run, start

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


def ratios(name: str, options: Options, dtype: torch.dtype = torch.float32) -> tuple[float, float]:
    """Return the mean and the maximum of our errors on XLA over those of the for-loop on the host."""
    grads, first = gradients(name, dtype), start(name, dtype)

    def trained(optimizer: Any, kind: torch.dtype, place: str = "cpu", **more: Any) -> Tensor:
        return run(optimizer, options | more, first.to(place, kind), [grad.to(place, kind) for grad in grads]).cpu()

    wanted = trained(THEIRS[name], torch.float64, **FOR_LOOP)
    theirs = errors(trained(THEIRS[name], dtype, **FOR_LOOP), wanted)
    ours = errors(trained(OURS[name], dtype, "xla"), wanted)
    return ours.mean / theirs.mean, ours.maximum / theirs.maximum


@pytest.mark.parametrize(("name", "options"), CASES)
def test_errors_are_those_of_the_for_loop(name: str, options: Options) -> None:
    mean, maximum = ratios(name, options)
    assert (mean <= ALLOWED_MEAN, maximum <= ALLOWED_MAXIMUM) == (True, True), (mean, maximum)
