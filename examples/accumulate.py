"""Gradient accumulation over several batches, with clipping and without a device sync in the step."""

import polycast
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = polycast.syncfree.AdamW(model.parameters(), lr=0.01)
scaler = polycast.GradScaler()
weight = torch.randn(8, 2)
loss_fn = nn.MSELoss()
accumulate = 4

for number in range(80):
    inputs = torch.randn(64, 8)
    with polycast.autocast("cpu", torch.float16):
        loss = loss_fn(model(inputs), inputs @ weight) / accumulate
    scaler.scale(loss).backward()  # The scaled gradients of the batches add up.
    if (number + 1) % accumulate == 0:
        # `clip_grad_norm` replaces `unscale_` and `clip_grad_norm_`, because the step itself unscales and clips.
        norm = scaler.clip_grad_norm(optimizer, max_norm=5.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if (number + 1) % 20 == 0:
            print(f"batch {number + 1}: loss {accumulate * loss.item():.3f}, norm {norm.item():.3f}")
print(f"{scaler.skip_count(optimizer)} of {80 // accumulate} steps skipped, the scale is {scaler.get_scale():g}")
