"""A float16 model whose norm overflows, and a rule that prevents overflow: ``python examples/overflow.py [xla]``."""

import sys

import polycast
import torch
from torch import Tensor, nn

# In float16, the square of 256 is infinite. The rules make `linear` and `matmul` run in float16. Without them, regions
# default to bfloat16. On XLA:CPU, the square does not overflow, because the compiler computes a fusion in float32.
half = polycast.Policy({"linear": "float16", "matmul": "float16"})
fixed = half | polycast.Policy({"square": "fp32"})
device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
if device == "xla":
    import torch_xla


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.scale, self.project = nn.Embedding(8, 32), nn.Linear(32, 32), nn.Linear(32, 96)
        self.head = nn.Linear(32, 17)

    def norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.scale(600 * self.embed(tokens))
        query, key, value = self.project(self.norm(x)).chunk(3, dim=-1)
        scores: Tensor = self.head(self.norm(x + torch.softmax(query @ key.mT / 32**0.5, dim=-1) @ value)[:, 0])
        return scores


for name, policy in (("all in float16", half), ("with the rule", fixed)):
    torch.manual_seed(0)
    model, losses, batches = Transformer().to(device), [], [torch.randint(8, (64, 16)) for _ in range(50)]
    optimizer, scaler = polycast.syncfree.AdamW(model.parameters(), lr=0.005), polycast.GradScaler(device)
    for tokens in batches:  # The model learns how often the first token occurs in each sequence.
        with polycast.autocast(device, policy=policy):
            scores, counts = model(tokens.to(device)).float(), (tokens == tokens[:, :1]).sum(1).to(device)
            loss = nn.CrossEntropyLoss()(scores, counts)
        losses.append(loss.detach())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if device == "xla":
            torch_xla.sync()
    print(f"{name}: loss {losses[0]:.2f} -> {losses[-1]:.2f}, {scaler.skip_count(optimizer)} of 50 steps skipped")
