"""A training that is saved and resumed in new objects ends as one that is not, bit for bit."""

import math
from pathlib import Path
from typing import Any

import polycast
import pytest
import torch
from polycast import devices
from torch import nn

from tests.support.devices import RESIZES, for_scaling, seed
from tests.support.properties import TIMES

STEPS = 20
BAD = 7  # every such step has an infinity
pytestmark = RESIZES


class Training:
    """Two models with one loss each, two optimizers, one scaler, a schedule for each optimizer, and dropout."""

    def __init__(self, device: str) -> None:
        self.device, self.number = device, 0
        seed(device)
        self.models: list[nn.Module] = [
            nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.1), nn.Linear(64, 2)).to(device) for _ in range(2)
        ]
        self.optimizers: list[Any] = [
            polycast.syncfree.AdamW(self.models[0].parameters(), lr=0.01),
            polycast.syncfree.SGD(self.models[1].parameters(), lr=0.01, momentum=0.9),
        ]
        self.scaler = polycast.GradScaler(device, init_scale=2.0**10, growth_interval=5)
        self.schedules = [
            polycast.SkipAwareLR(optimizer, lambda taken: (1 + torch.cos(taken * math.pi / STEPS)) / 2, self.scaler)
            for optimizer in self.optimizers
        ]
        self.parts: list[Any] = [*self.models, *self.optimizers, self.scaler, *self.schedules]

    def step(self) -> None:
        inputs = torch.randn(16, 8, device=self.device)
        factor = float("inf") if self.number % BAD == BAD - 1 else 1.0
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        with polycast.autocast(self.device, dtype=for_scaling(self.device)):
            losses = [nn.functional.mse_loss(model(inputs), inputs[:, :2]) for model in self.models]
        self.scaler.scale(losses[0] * factor + losses[1]).backward()  # type: ignore[no-untyped-call]
        self.scaler.clip_grad_norm(self.optimizers[0], max_norm=1.0)
        self.scaler.step_together(*self.optimizers)
        self.scaler.update()
        for schedule in self.schedules:
            schedule.step()
        self.number += 1

    def state(self) -> dict[str, Any]:
        parts = [part.state_dict() for part in self.parts]
        return {"parts": parts, "number": self.number, "random": devices.random_state()}

    def load(self, state: dict[str, Any]) -> None:
        for part, saved in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(saved)
        self.number = state["number"]
        devices.set_random_state(state["random"])


# After few steps, in the midst, and after a step that was skipped.
@pytest.mark.parametrize("saved_at", [1, 10, 2 * BAD])
def test_a_resumed_training_ends_bit_for_bit_as_one_that_is_not(
    real_device: str, saved_at: int, tmp_path: Path
) -> None:
    if real_device == "xla" and (TIMES == 1 or saved_at != 10):
        pytest.skip("the training is compiled on XLA, which takes minutes; TIMES=10 runs it")
    training = Training(real_device)
    for number in range(STEPS):
        if number == saved_at:
            torch.save(training.state(), tmp_path / "state.pt")
        training.step()
    resumed = Training(real_device)
    resumed.load(torch.load(tmp_path / "state.pt"))
    while resumed.number < STEPS:
        resumed.step()
    torch.testing.assert_close(resumed.state(), training.state(), rtol=0, atol=0, equal_nan=True)
