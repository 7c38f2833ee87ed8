"""Low-rank adapters over frozen weights with kept casts: `python examples/lora.py`.

A region casts frozen weights again in each step, like PyTorch's autocast. `polycast.cast_cache.keep` casts them once.
The adapters learn the difference between two models. The program needs matplotlib and tqdm.
"""

import argparse
import copy
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter

import polycast
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from tqdm import tqdm

RANK = 8


class LoRA(nn.Module):
    """A frozen linear layer plus a trainable product of two thin matrices."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base: nn.Module = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, RANK, bias=False)
        self.up = nn.Linear(RANK, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))  # type: ignore[no-any-return]


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--output", type=Path, default=Path("lora.png"), help="write this plot (default: lora.png)")
options = parser.parse_args()

torch.manual_seed(0)
layers = [nn.Linear(options.width, options.width) for _ in range(3)]
untrained, target = nn.Sequential(*map(LoRA, layers)), nn.Sequential(*copy.deepcopy(layers))
for weight in (layer.weight for layer in layers):
    weight.data += 0.02 * torch.randn(options.width, 1) * torch.randn(options.width)
with torch.no_grad():
    # Like real data, the inputs have few independent features.
    drawn = torch.randn(options.steps, 16, 16) @ torch.randn(16, options.width)
    batches = [(inputs, target(inputs)) for inputs in drawn]

figure = Figure(figsize=(7, 4), layout="constrained")
axes = figure.subplots()
for name in ("cast in each step", "kept"):
    model = copy.deepcopy(untrained)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = polycast.syncfree.AdamW(trained, lr=5e-4)
    losses, seconds, start = [], [], perf_counter()
    with polycast.cast_cache.keep(model) if name == "kept" else nullcontext():
        for inputs, wanted in tqdm(batches, desc=name, unit="step"):
            with polycast.autocast("cpu"):
                loss = nn.functional.mse_loss(model(inputs), wanted)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            seconds.append(perf_counter() - start)
    took = 1e3 * seconds[-1] / options.steps
    print(f"{name}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, {took:.1f} ms a step")
    axes.plot(seconds, losses, label=f"{name}: {took:.1f} ms a step")
axes.set(yscale="log", xlabel="seconds", ylabel="mean squared error")
axes.legend()
figure.savefig(options.output)
