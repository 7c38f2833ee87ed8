"""A small transformer that learns from the source of a Python module, and then generates code.

The program needs matplotlib and tqdm.
"""

import argparse
import inspect
from pathlib import Path

import polycast
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from tqdm import tqdm

CONTEXT, WIDTH = 64, 64


class Characters(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(count, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, count)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, text: Tensor) -> Tensor:
        x = self.letters(text) + self.places.weight
        return self.head(self.layers(x, mask=self.mask, is_causal=True))  # type: ignore[no-any-return]


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--device", default="cpu")
parser.add_argument("--output", type=Path, default=Path("language_model.png"), help="write this plot")
options = parser.parse_args()

source = inspect.getsource(argparse)
letters = sorted(set(source))
codes = torch.tensor([letters.index(letter) for letter in source], device=options.device)

torch.manual_seed(0)
model = Characters(len(letters)).to(options.device)
optimizer = polycast.syncfree.AdamW(model.parameters(), lr=2e-3)
losses: list[Tensor] = []
for _ in (progress := tqdm(range(options.steps), unit="step")):
    starts = torch.randint(len(codes) - CONTEXT, (16, 1), device=options.device)
    text = codes[starts + torch.arange(CONTEXT + 1, device=options.device)]
    with polycast.autocast(options.device, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.detach())
    progress.set_postfix(loss=f"{loss.item():.3f}", refresh=False)

written = codes[:CONTEXT]
model.eval()
for _ in tqdm(range(min(options.steps, 200)), desc="writes", unit="character"):
    with torch.no_grad(), polycast.autocast(options.device, dtype=torch.bfloat16):
        following = model(written[None, -CONTEXT:])[0, -1].float().softmax(-1)
    written = torch.cat([written, following.multinomial(1)])
print("".join(letters[code] for code in written[CONTEXT:]), end="\n\n")
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f} in {len(losses)} steps")

figure = Figure(figsize=(7, 4), layout="constrained")
axes = figure.subplots()
axes.plot(torch.stack(losses).cpu())
axes.set(xlabel="step", ylabel="cross entropy of the next character", title="A transformer on Python's argparse")
figure.savefig(options.output)
