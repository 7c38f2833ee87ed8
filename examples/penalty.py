"""A penalty on the norm of the gradients, under autocast."""

import polycast
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = polycast.syncfree.SGD(model.parameters(), lr=0.05)
scaler = polycast.GradScaler()
loss_fn = nn.MSELoss()
inputs = torch.randn(64, 8)
targets = inputs @ torch.randn(8, 2)

for number in range(40):
    optimizer.zero_grad()
    with polycast.autocast("cpu", torch.float16):
        loss = loss_fn(model(inputs), targets)
    scaled_grads = torch.autograd.grad(scaler.scale(loss), list(model.parameters()), create_graph=True)
    inv_scale = 1.0 / scaler.get_scale()  # `get_scale` causes a device sync.
    grads = [grad * inv_scale for grad in scaled_grads]
    with polycast.autocast("cpu", torch.float16):
        penalty = torch.stack([grad.square().sum() for grad in grads]).sum().sqrt()
    scaler.scale(loss + 0.1 * penalty).backward()
    scaler.step(optimizer)
    scaler.update()
    if number % 10 == 9:
        print(f"step {number + 1}: loss {loss.item():.3f}, norm of the gradients {penalty.item():.3f}")
