"""A training step under torch.compile: a scaler stays out of the graphs, without a warning, and changes nothing."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from tests.scaler.common import INF, LOOKS, OPTIMIZERS, started

# What compiling stock's loss in `scaler.scale(loss).backward()` warns of, too, and torch 2.13 of its own optimizers.
# Every other warning is an error.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def _no_code_yet() -> Iterator[None]:
    """Dynamo, which warns once of each function, does so anew."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Training:
    """A model, its optimizer and scaler, and a step of their training."""

    def __init__(self, kind: str, look: str = "step", together: bool = False, skip_on_host: bool = False) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(4, 2)
        self.optimizer = OPTIMIZERS[kind](self.model.parameters())
        self.scaler = started(skip_on_host=skip_on_host)
        self.look, self.step = LOOKS[look], self.scaler.step_together if together else self.scaler.step

    def iterate(self, inputs: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss: Tensor = self.model(inputs).square().mean()
        self.scaler.scale(loss).backward()
        self.look(self.scaler, self.optimizer)
        self.step(self.optimizer)
        self.scaler.update()
        return loss.detach()


@pytest.mark.parametrize(
    ("kind", "look", "together", "skip_on_host"),
    [
        ("sync-free", "clip_grad_norm", False, False),
        ("sync-free", "unscale_", False, True),
        ("sync-free", "step", True, False),
        ("fused", "step", False, False),
        ("fused", "clip_grad_norm", True, False),
        ("for-loop", "step", False, True),
        ("for-loop", "clip_grad_norm", False, False),
    ],
)
def test_compiled_it_trains_as_it_does_without(kind: str, look: str, together: bool, skip_on_host: bool) -> None:
    eager, compiled = (Training(kind, look, together, skip_on_host) for _ in range(2))
    iterate = torch.compile(compiled.iterate, backend="eager")
    for factor in (1.0, 2.0, INF, 1.0, 3.0):
        inputs = torch.full((3, 4), factor)
        torch.testing.assert_close(iterate(inputs), eager.iterate(inputs), equal_nan=True)
        skipped = [training.scaler.skipped(training.optimizer).item() for training in (eager, compiled)]
        assert skipped == [factor == INF] * 2
    torch.testing.assert_close([*compiled.model.parameters()], [*eager.model.parameters()])
    assert compiled.scaler.state_dict() == eager.scaler.state_dict()
    assert [training.scaler.skip_count().item() for training in (eager, compiled)] == [1, 1]


@pytest.mark.parametrize("kind", ["sync-free", "fused"])
def test_a_compiled_step_of_an_optimizer_is_silent(kind: str) -> None:
    """Whatever steps it: each step is followed by a look at the cast cache."""
    training = Training(kind)
    step = torch.compile(lambda: training.optimizer.step(), backend="eager")
    training.model(torch.ones(3, 4)).sum().backward()
    before = training.model.weight.detach().clone()
    step()
    step()
    assert not torch.equal(training.model.weight, before)
