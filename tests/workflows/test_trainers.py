"""Accelerate, unmodified, with our scaler and optimizers instead of torch's.

More trainers, and more that they do: tests/slow/ecosystem.
"""

import os
from pathlib import Path
from typing import Any

import polycast
import pytest
import torch
from torch import Tensor
from torch.optim import lr_scheduler

from tests.workflows.loops import data, floats, loss_fn, network

STEPS, SKIPPED = 12, 4
SCALE = 256.0


def accelerate() -> Any:
    os.environ["USE_TORCH_XLA"] = "0"  # where torch_xla is installed it asks for it at its import
    return pytest.importorskip("accelerate", reason="accelerate is not installed; the tests of its trainer need it")


class Accelerated:
    """A training by Accelerate in float16 on the host, which it would allow on a GPU only."""

    def __init__(self, library: Any, scaler: Any) -> None:
        for state in (accelerate().state.AcceleratorState, accelerate().state.GradientState):
            state._reset_state()
        self.accelerator = accelerate().Accelerator(cpu=True, gradient_accumulation_steps=2)
        self.accelerator.state._mixed_precision = "fp16"
        self.accelerator.native_amp = True
        self.accelerator.scaler = scaler
        model = network("cpu")
        optimizer = library.AdamW(model.parameters(), lr=0.01)
        schedule: Any = lr_scheduler.ExponentialLR(optimizer, 0.9)
        if isinstance(scaler, polycast.GradScaler) and library is polycast.syncfree and not scaler._skip_on_host:
            schedule = polycast.SkipAwareLR(optimizer, lambda steps: 0.9**steps, scaler)
        self.model, self.optimizer, self.schedule = self.accelerator.prepare(model, optimizer, schedule)

    def train(self, first: int, last: int, inside: bool) -> list[Tensor]:
        """Return the losses of these batches; one has a gradient that is not finite."""
        losses = []
        for number, (inputs, targets) in enumerate(data("cpu", STEPS)):
            if not first <= number < last:
                continue
            with self.accelerator.accumulate(self.model):
                loss = loss_fn(self.model(inputs), targets)
                self.accelerator.backward(loss * (float("inf") if number == SKIPPED else 1.0))
                if self.accelerator.sync_gradients and inside:
                    self.accelerator.scaler.clip_grad_norm(self.optimizer, 0.5)
                elif self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), 0.5)
                self.optimizer.step()
                self.schedule.step()
                self.optimizer.zero_grad()
            losses.append(loss.detach())
        return losses


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("library", "on_host", "inside"),
    [
        (polycast.syncfree, False, True),
        (polycast.syncfree, True, False),
        (torch.optim, True, False),
        (torch.optim, False, True),
    ],
    ids=["sync-free, clips", "sync-free, skips on the host", "torch, skips on the host", "torch, clips"],
)
def test_accelerate(library: Any, on_host: bool, inside: bool, tmp_path: Path) -> None:
    """Clipping, accumulation, a skipped step, and a resume from a checkpoint go stock's way."""
    stock = Accelerated(torch.optim, torch.amp.grad_scaler.GradScaler("cpu", init_scale=SCALE))
    wanted = floats(stock.train(0, STEPS, inside=False))
    rates = stock.schedule.get_last_lr()
    ours = Accelerated(library, polycast.GradScaler("cpu", init_scale=SCALE, skip_on_host=on_host))
    found = floats(ours.train(0, 8, inside))
    assert ours.accelerator.scaler.skip_count(ours.optimizer).item() == 1
    ours.accelerator.save_state(str(tmp_path))
    resumed = Accelerated(library, polycast.GradScaler("cpu", init_scale=SCALE, skip_on_host=on_host))
    resumed.train(0, 2, inside)
    resumed.accelerator.load_state(str(tmp_path))
    found += floats(resumed.train(8, STEPS, inside))
    assert found == pytest.approx(wanted, rel=1e-3)
    assert resumed.schedule.get_last_lr() == pytest.approx(rates)
    assert resumed.accelerator.scaler.get_scale() == stock.accelerator.scaler.get_scale() == SCALE / 2


@pytest.mark.filterwarnings("ignore")
def test_accelerates_schedulers_step_once_for_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Accelerated(polycast.syncfree, polycast.GradScaler("cpu", init_scale=SCALE))
    monkeypatch.setitem(accelerate().PartialState._shared_state, "num_processes", 2)
    training.train(0, STEPS, inside=True)
    assert training.schedule.get_last_lr() == pytest.approx([0.01 * 0.9 ** (2 * (STEPS // 2 - 1))])
