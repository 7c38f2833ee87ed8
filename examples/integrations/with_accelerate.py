"""Accelerate with polycast's scaler: a run that clips, skips a step, saves, is killed and resumes.

If ``torch_xla`` is installed, set ``USE_TORCH_XLA=0``: otherwise Accelerate uses the XLA device even with ``cpu=True``.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import polycast
import torch
from accelerate import Accelerator
from polycast.integrations import accelerate
from torch import nn


def train(folder: Path) -> None:
    accelerator = Accelerator(cpu=True, mixed_precision="fp16")
    scaler = accelerate.use(accelerator)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
    adamw = polycast.syncfree.AdamW(net.parameters(), lr=0.02)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adamw, T_max=40)
    model, optimizer, schedule = accelerator.prepare(net, adamw, cosine)
    resumes = folder.exists()
    if resumes:
        accelerator.load_state(folder)
    for number in range(20 if resumes else 0, 40):
        inputs = torch.randn(64, 8)
        loss = nn.functional.mse_loss(model(inputs), inputs[:, :2])
        accelerator.backward(loss * (float("inf") if number == 10 else 1))
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()  # The schedule does not advance after a skipped step.
        optimizer.zero_grad()
        if optimizer.step_was_skipped or number == 39:
            print(f"step {number}: loss {loss.item():.3f}, skipped {optimizer.step_was_skipped}")
            print(f"the scale is {scaler.get_scale():g}, the learning rate {schedule.get_last_lr()[0]:.5f}")
        if number == 19:
            accelerator.save_state(folder)
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, __file__, f"{place}/state"]
            assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
            print("killed, and started again")
            subprocess.run(command, check=True)
