"""Timm with polycast's scaler and optimizers: a run that clips, skips a step, saves, is killed and resumes."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import polycast
import timm.optim
import torch
from polycast.integrations.timm import NativeScaler
from torch import nn


def train(saved: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
    groups = timm.optim.param_groups_weight_decay(model, weight_decay=0.05)
    optimizer = polycast.syncfree.AdamW(groups, lr=0.02)
    loss_scaler = NativeScaler()
    resumes = saved.exists()
    if resumes:
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loss_scaler.load_state_dict(state[loss_scaler.state_dict_key])
    for number in range(20 if resumes else 0, 40):
        inputs = torch.randn(64, 8)
        with polycast.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(inputs), inputs[:, :2])
        factor = float("inf") if number == 10 else 1.0
        loss_scaler(loss * factor, optimizer, clip_grad=1.0, parameters=model.parameters())
        optimizer.zero_grad()
        if number in (10, 39):
            print(f"step {number}: loss {loss.item():.3f}, the scale is {loss_scaler.state_dict()['scale']:g}")
        if number == 19:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, loss_scaler.state_dict_key: loss_scaler.state_dict()}, saved)
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, __file__, f"{place}/last.pth"]
            assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
            print("killed, and started again")
            subprocess.run(command, check=True)
