"""A training run that can be killed at any time: the resumed run ends bit for bit like an uninterrupted one.

The checkpoint has all state that the next step depends on: weights, optimizer, scaler, schedule and random numbers. The
program needs matplotlib and tqdm.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import polycast
import torch
from matplotlib.figure import Figure
from torch import nn
from tqdm import tqdm

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--every", type=int, default=100, help="save a checkpoint after so many steps (default: 100)")
parser.add_argument("--checkpoint", type=Path, default=Path("resume.pt"))
parser.add_argument("--output", type=Path, default=Path("resume.png"), help="write this plot (default: resume.png)")
options = parser.parse_args()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 2))
optimizer = polycast.syncfree.AdamW(model.parameters(), lr=0.01)
scaler = polycast.GradScaler("cpu", init_scale=2.0**24)  # The first steps overflow and are skipped.
schedule = polycast.SkipAwareLR(optimizer, lambda taken: (1 + torch.cos(taken * math.pi / options.steps)) / 2, scaler)
parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "scaler": scaler, "schedule": schedule}
losses: list[float] = []
starts: list[int] = []


def save() -> None:
    """Write a whole file and then rename it, so that a kill leaves either the old file or the new one."""
    state = {name: part.state_dict() for name, part in parts.items()}
    new = options.checkpoint.with_suffix(".new")
    torch.save({**state, "losses": losses, "starts": starts, "random": torch.get_rng_state()}, new)
    new.replace(options.checkpoint)


if options.checkpoint.exists():
    state = torch.load(options.checkpoint)
    for name, part in parts.items():
        part.load_state_dict(state[name])
    losses, starts = state["losses"], [*state["starts"], len(state["losses"])]
    torch.set_rng_state(state["random"])
    print(f"goes on after step {len(losses)}")

for step in tqdm(range(len(losses), options.steps), initial=len(losses), total=options.steps, unit="step"):
    inputs = torch.randn(64, 8)
    with polycast.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(inputs), inputs[:, :2].sin())
    scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
    optimizer.zero_grad()
    losses.append(loss.item())
    if (step + 1) % options.every == 0 or step + 1 == options.steps:
        save()

print(f"loss {losses[-1]!r} after {len(losses)} steps, the scale is {scaler.get_scale():g}")
figure = Figure(figsize=(7, 4), layout="constrained")
axes = figure.subplots()
axes.plot(losses)
for start in starts:
    axes.axvline(start, color="black", linestyle="dotted", label="killed, and started again")
axes.set(yscale="log", xlabel="step", ylabel="mean squared error")
figure.savefig(options.output)
