"""A training step under ``torch.compile``: the scaler causes no warning and changes no result."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.scaler.common import INF, LOOKS, OPTIMIZERS, started

# PyTorch's scaler, and optimizers of PyTorch 2.13, also cause these warnings when they are compiled. Every other
# warning is an error.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]


def train(model: nn.Module, scaler: Any, optimizer: Any, look: Any, together: bool, inputs: Tensor) -> None:
    optimizer.zero_grad()
    scaler.scale(model(inputs).square().mean()).backward()
    look(scaler, optimizer)
    (scaler.step_together if together else scaler.step)(optimizer)
    scaler.update()


@pytest.mark.parametrize(
    ("kind", "look", "together", "skip_on_host"),
    [
        ("sync-free", "clip_grad_norm", False, False),
        ("sync-free", "unscale_", False, True),
        ("sync-free", "step", True, False),
        ("fused", "clip_grad_norm", True, False),
        ("for-loop", "step", False, True),
    ],
)
def test_compiled_training_equals_eager_training(kind: str, look: str, together: bool, skip_on_host: bool) -> None:
    torch._dynamo.reset()  # Dynamo then warns again for each function.
    results = []
    for is_compiled in (False, True):
        torch.manual_seed(0)
        model, scaler = nn.Linear(4, 2), started(skip_on_host=skip_on_host)
        optimizer = OPTIMIZERS[kind](model.parameters())
        iterate = partial(train, model, scaler, optimizer, LOOKS[look], together)
        step = torch.compile(iterate, backend="eager") if is_compiled else iterate
        for factor in (1.0, 2.0, INF, 1.0, 3.0):
            step(torch.full((3, 4), factor))
            assert scaler.step_was_skipped(optimizer).item() == (factor == INF)
        results.append([*model.parameters(), torch.tensor(scaler.get_scale()), scaler.skip_count(optimizer)])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("kind", ["sync-free", "fused"])
def test_a_compiled_optimizer_step_does_not_warn(kind: str) -> None:
    """The cast cache has a hook, which runs after each step of any optimizer and must not cause a warning."""
    torch._dynamo.reset()
    weight = torch.ones(2, requires_grad=True)
    optimizer, weight.grad = OPTIMIZERS[kind]([weight]), torch.ones(2)
    step = torch.compile(lambda: optimizer.step(), backend="eager")
    step()
    step()
    assert weight.tolist() != [1.0, 1.0]
