"""A training step under torch.compile: a scaler stays out of the graphs, without a warning, and changes nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn

# What compiling stock's loss in `scaler.scale(loss).backward()` warns of, too, and torch 2.13 of its own optimizers.
# Every other warning is an error.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sync-free": lambda params: syncfree.AdamW(params, lr=0.1),
    "fused": lambda params: torch.optim.AdamW(params, lr=0.1, fused=True),
    "for-loop": lambda params: torch.optim.SGD(params, lr=0.1, foreach=False, fused=False),
}


def clip_and_step(scaler: polycast.GradScaler, optimizer: torch.optim.Optimizer) -> None:
    scaler.clip_grad_norm(optimizer, 0.1)
    scaler.step(optimizer)


def unscale_and_step(scaler: polycast.GradScaler, optimizer: torch.optim.Optimizer) -> None:
    scaler.unscale_(optimizer)
    scaler.step(optimizer)


STEPS: dict[str, Callable[[polycast.GradScaler, Any], object]] = {
    "step": lambda scaler, optimizer: scaler.step(optimizer),
    "unscale_": unscale_and_step,
    "clip_grad_norm": clip_and_step,
    "step_together": lambda scaler, optimizer: scaler.step_together(optimizer),
}


@pytest.fixture(autouse=True)
def _no_code_yet() -> Iterator[None]:
    """Dynamo, which warns once of each function, does so anew."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Training:
    """A model, its optimizer and scaler, and a step of their training."""

    def __init__(self, kind: str, step: str, **options: Any) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(4, 2)
        self.optimizer = OPTIMIZERS[kind](self.model.parameters())
        self.scaler = polycast.GradScaler(init_scale=4.0, **options)
        self.step = STEPS[step]

    def iterate(self, inputs: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss: Tensor = self.model(inputs).square().mean()
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.step(self.scaler, self.optimizer)
        self.scaler.update()
        return loss.detach()


@pytest.mark.parametrize("report_skips", [False, True])
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("step", STEPS)
def test_compiled_it_trains_as_it_does_without(step: str, kind: str, report_skips: bool) -> None:
    eager, compiled = (Training(kind, step, report_skips=report_skips) for _ in range(2))
    iterate = torch.compile(compiled.iterate, backend="eager")
    for factor in (1.0, 2.0, float("inf"), 1.0, 3.0):
        inputs = torch.full((3, 4), factor)
        torch.testing.assert_close(iterate(inputs), eager.iterate(inputs), equal_nan=True)
        skipped = [training.scaler.skipped(training.optimizer).item() for training in (eager, compiled)]
        assert skipped == [factor == float("inf")] * 2
    for param, wanted in zip(compiled.model.parameters(), eager.model.parameters(), strict=True):
        torch.testing.assert_close(param, wanted)
    assert compiled.scaler.state_dict() == eager.scaler.state_dict()
    assert [training.scaler.step_count(training.optimizer) for training in (eager, compiled)] == [5, 5]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_compiled_step_of_an_optimizer_is_silent(kind: str) -> None:
    """Whatever steps it: each step is followed by a look at the cast cache."""
    training = Training(kind, "step")
    step = torch.compile(lambda: training.optimizer.step(), backend="eager")
    training.model(torch.ones(3, 4)).sum().backward()
    before = training.model.weight.detach().clone()
    step()
    step()
    assert not torch.equal(training.model.weight, before)
