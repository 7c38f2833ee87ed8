"""Errors of 100 steps on XLA against float64, beside the errors of torch.optim's for-loop on the same numbers."""

import pytest
import torch

from testing.accuracy import gradients, run, start, too_large
from testing.optimizers import OURS, Options
from testing.probe import HAS_XLA, NO_XLA
from testing.xla import sync

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


@pytest.mark.parametrize(("name", "options"), CASES)
def test_errors_on_xla_are_those_of_the_for_loop(name: str, options: Options) -> None:
    """A graph for each step."""
    dtype = torch.float32
    found = run(OURS[name], options, start(name, dtype).to("xla"), gradients(name, dtype), after_step=sync)
    assert too_large(name, options, dtype, {"xla": found}) == []
