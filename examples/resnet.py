"""A ResNet that learns handwritten digits in lower precision: `python examples/resnet.py --dtype float16`.

The digits are scikit-learn's. The program needs torchvision, scikit-learn, matplotlib and tqdm.
"""

import argparse
from pathlib import Path

import polycast
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn.functional import cross_entropy, interpolate
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, random_split
from torchvision.models import resnet18
from tqdm import tqdm

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--device", default="cpu")
parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
parser.add_argument("--output", type=Path, default=Path("resnet.png"), help="write this plot (default: resnet.png)")
options = parser.parse_args()

torch.manual_seed(0)
pixels, labels = map(torch.from_numpy, load_digits(return_X_y=True))
images = interpolate(pixels.view(-1, 1, 8, 8).float() / 16, scale_factor=4).repeat(1, 3, 1, 1)
learn, exam = random_split(TensorDataset(images, labels), [0.75, 0.25])
sampler = RandomSampler(learn, replacement=True, num_samples=32 * options.steps)
batches = DataLoader(learn, batch_size=32, sampler=sampler)

model = resnet18(num_classes=10).to(options.device)
optimizer = polycast.syncfree.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
scaler = polycast.GradScaler(options.device, enabled=options.dtype == "float16")  # Only float16 needs a scaler.
region = polycast.autocast(options.device, dtype=options.dtype, enabled=options.dtype != "float32")

losses: list[Tensor] = []
for inputs, targets in (progress := tqdm(batches, desc=options.dtype, unit="step")):
    with region:
        loss = cross_entropy(model(inputs.to(options.device)), targets.to(options.device))
    scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    losses.append(loss.detach())
    progress.set_postfix(loss=f"{loss.item():.3f}", refresh=False)

model.eval()
with torch.no_grad(), region:
    found = [model(inputs.to(options.device)).argmax(1).cpu() == targets for inputs, targets in DataLoader(exam, 64)]
accuracy = 100 * torch.cat(found).float().mean().item()
print(f"{options.dtype}: loss {losses[-1]:.3f} after {len(losses)} steps, {accuracy:.1f} % of the test digits right")

figure = Figure(figsize=(7, 4), layout="constrained")
axes = figure.subplots()
axes.plot(torch.stack(losses).cpu())
axes.set(yscale="log", xlabel="step", ylabel="cross entropy of the batch")
axes.set_title(f"ResNet-18 in {options.dtype}: {accuracy:.1f} % of the test digits right")
figure.savefig(options.output)
