"""Two models with one scaler: both optimizers step, or neither does. The schedule advances only if both step."""

import math

import polycast
import torch
from torch import nn

torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)) for _ in range(2)]
optimizers = [polycast.syncfree.AdamW(model.named_parameters(), lr=0.02) for model in models]
scaler = polycast.GradScaler()
loss_fn = nn.MSELoss()
schedule = polycast.SkipAwareLR(optimizers[0], lambda steps: (1 + torch.cos(steps * math.pi / 40)) / 2, scaler)
inputs = torch.randn(64, 8)
targets = inputs @ torch.randn(8, 2)

for number in range(40):
    for optimizer in optimizers:
        optimizer.zero_grad()
    with polycast.autocast("cpu", torch.float16):
        first, second = (model(inputs) for model in models)
        losses = [loss_fn(2 * first + 3 * second, targets), loss_fn(3 * first, 5 * second)]
    scaler.scale(losses[0]).backward(retain_graph=True)
    scaler.scale(losses[1] * (float("inf") if number == 10 else 1)).backward()
    scaler.step_together(*optimizers)
    scaler.update()
    schedule.step()  # The schedule does not advance after a skipped step.
    if number in (9, 10, 39):
        rate = schedule.get_last_lr()[0]
        print(f"step {number + 1}: losses {losses[0].item():.3f} and {losses[1].item():.3f}, learning rate {rate:.5f}")
        print("  not finite:", ", ".join(scaler.non_finite(optimizers[0])) or "none")
