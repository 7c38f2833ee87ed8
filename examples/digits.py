"""A small convolutional model that learns handwritten digits in float32 and under autocast.

The digits are scikit-learn's: 1797 images of 8 x 8 pixels. Both runs start from the same weights and use the same
batches. They run on XLA:CPU, or on the XLA device in `PJRT_DEVICE`. Without `torch_xla`, they run on the accelerator
that PyTorch finds, or on the CPU. `--device` selects another device.
"""

import argparse
import copy
import os
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__":  # The handler precedes the slow imports, so that Ctrl-C during an import prints one line.
    signal.signal(signal.SIGINT, lambda *_: sys.exit("\nStopped."))

import polycast
import torch
from torch import Tensor, nn

try:
    from matplotlib.figure import Figure
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from tqdm import tqdm
except ModuleNotFoundError as error:
    sys.exit(f"{error}. Run: {sys.executable} -m pip install scikit-learn matplotlib tqdm")

BATCH = 64
EPOCHS = 10
LOSS = nn.CrossEntropyLoss()


def best_device() -> str:
    """Return the device type to train on by default."""
    if find_spec("torch_xla"):
        return "xla"
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return accelerator.type if accelerator else "cpu"


def open_device(name: str) -> torch.device:
    """Return the device. XLA runs on the CPU unless ``PJRT_DEVICE`` selects another device."""
    if name == "xla":
        os.environ.setdefault("PJRT_DEVICE", "CPU")  # Otherwise `torch_xla` chooses a device and warns.
        import torch_xla  # noqa: F401 -- it registers the device
    torch.empty(0, device=name)  # This call raises if the device does not exist.
    return torch.device(name)


def end_step(device: torch.device) -> None:
    """Run the ops that XLA traced since the last step, as one compiled program. On other devices, do nothing."""
    if device.type == "xla":
        import torch_xla

        torch_xla.sync()


def counts(device: torch.device) -> Counter[str]:
    """Return XLA's numbers of compiled programs, and of copies from and to the device. Other devices count nothing."""
    if device.type != "xla":
        return Counter()
    from torch_xla.debug import metrics

    reads, writes = (metrics.metric_data(f"Transfer{way}DeviceTime") or (0,) for way in ("From", "To"))
    programs = metrics.counter_value("UncachedCompile") or 0
    return Counter(
        {"compiled programs": programs, "copies from the device": reads[0], "copies to the device": writes[0]}
    )


@dataclass(frozen=True)
class Digits:
    """Images of shape (n, 1, 8, 8), float32 from 0 to 1, and their labels of shape (n,), int64."""

    images: Tensor
    labels: Tensor

    def batches(self, order: Tensor) -> list["Digits"]:
        """Return full batches of the digits, in this order. XLA would compile a batch of another size separately."""
        order = order[: len(order) // BATCH * BATCH].to(self.labels.device)
        return list(map(Digits, torch.split(self.images[order], BATCH), torch.split(self.labels[order], BATCH)))


@dataclass(frozen=True)
class Run:
    """The results of a training run: the loss of each step, XLA's counts in each epoch, and the test results."""

    name: str
    losses: list[float]
    costs: list[Counter[str]]
    dtypes: list[str]
    predictions: Tensor
    right: Tensor
    accuracy: float  # This is the percentage of correct predictions.


def load(seed: int, device: torch.device) -> tuple[Digits, Digits]:
    """Return three quarters of the digits for training, and one quarter for the test."""
    pixels, labels = load_digits(return_X_y=True)
    learn, test = train_test_split(range(len(labels)), test_size=0.25, stratify=labels, random_state=seed)
    images = torch.tensor(pixels / 16, dtype=torch.float32).view(-1, 1, 8, 8)
    pairs = [(images[part].to(device), torch.tensor(labels[part]).to(device)) for part in (learn, test)]
    return Digits(*pairs[0]), Digits(*pairs[1])


def build() -> nn.Sequential:
    """Return an untrained model."""
    first = (nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
    second = (nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(*first, *second, nn.Linear(64 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10))


def train(network: nn.Sequential, digits: Digits, autocast: bool) -> tuple[list[float], list[Counter[str]]]:
    """Train the model. Return all losses and XLA's counts for each epoch. The counts exclude copies of the losses."""
    optimizer = polycast.syncfree.AdamW(network.parameters(), lr=2e-3, weight_decay=0.1)
    scaler = polycast.GradScaler(enabled=autocast)
    generator = torch.Generator().manual_seed(0)
    device, curve, costs = digits.labels.device, [], []
    epochs = tqdm(range(EPOCHS), desc="autocast" if autocast else "float32 ", unit="epoch")
    for _ in epochs:
        batches = digits.batches(torch.randperm(len(digits.labels), generator=generator))
        end_step(device)
        losses, before = [], counts(device)
        for batch in batches:
            with polycast.autocast(device, enabled=autocast):
                loss = LOSS(network(batch.images), batch.labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            losses.append(loss.detach())
            end_step(device)
        costs.append(counts(device) - before)
        curve += torch.stack(losses).tolist()
        epochs.set_postfix(loss=f"{curve[-1]:.4f}")
    return curve, costs


def test(network: nn.Sequential, digits: Digits, autocast: bool) -> tuple[Tensor, list[str]]:
    """Return the predicted digits, and the dtype of the output of each layer."""
    dtypes: list[str] = []
    for layer in (*network.eval(), loss := nn.CrossEntropyLoss()):
        layer.register_forward_hook(lambda *call: dtypes.append(str(call[-1].dtype).removeprefix("torch.")))
    with torch.no_grad(), polycast.autocast(digits.labels.device, enabled=autocast):
        scores = network(digits.images)
        loss(scores, digits.labels)
    return scores.argmax(1).cpu(), dtypes


def report(runs: list[Run], layers: list[str], device: torch.device) -> None:
    """Print a table with a column for each run."""
    hardware = f" (PJRT_DEVICE={os.environ['PJRT_DEVICE']})" if device.type == "xla" else ""
    rows = [(f"device: {device}{hardware}",), ("",), ("", *(run.name for run in runs))]
    rows += [("test accuracy", *(f"{run.accuracy:.2f} %" for run in runs))]
    rows += [(f"\ndtype of each layer's output, by the rules of {device}",)]
    rows += [(f"  {layer}", *dtypes) for layer, *dtypes in zip(layers, *(run.dtypes for run in runs), strict=True)]
    if counts(device):
        rows.append((f"\ncounts of the training steps of epoch 1, and of epochs 2 to {EPOCHS} together",))
    for what in counts(device):
        later = [sum(cost[what] for cost in run.costs[1:]) for run in runs]
        rows.append((f"  {what}", *(f"{run.costs[0][what]}, {n}" for n, run in zip(later, runs, strict=True))))
    for label, *values in rows:
        print("  ".join([f"{label:24}", *(f"{value:10}" for value in values)]).rstrip())


def draw(digits: Digits, runs: list[Run]) -> Figure:
    """Draw the loss curves, and test digits with the predictions of the last run, wrong ones first."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    grid = figure.add_gridspec(1, 2, width_ratios=[5, 6])
    axes = figure.add_subfigure(grid[0]).subplots()
    for run, width, alpha in zip(runs, (4, 1), (0.4, 1), strict=True):
        label = f"{run.name}: {run.accuracy:.2f} % of the test digits right"
        axes.plot(run.losses, label=label, linewidth=width, alpha=alpha)
    axes.set(yscale="log", xlabel="step", ylabel="cross entropy of the batch", title="Training loss")
    axes.legend()
    tiles, last = figure.add_subfigure(grid[1]), runs[-1]
    tiles.suptitle(f"Test digits as read under {last.name}, the {sum(~last.right)} misses of {len(last.right)} first")
    for tile, index in zip(tiles.subplots(4, 7).flat, last.right.int().argsort(stable=True).tolist(), strict=False):
        colour, truth = ("black", "") if last.right[index] else ("red", f", is {digits.labels[index]}")
        tile.imshow(digits.images[index, 0].numpy(), cmap="gray_r")
        tile.set_title(f"{last.predictions[index]}{truth}", color=colour, fontsize=10)
        tile.set(xticks=[], yticks=[])
        tile.spines[:].set(color=colour, linewidth=2.5 if truth else 0.8)
    return figure


def main() -> None:
    """Read the command line, train and test both models, and print and draw the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=best_device(), help=f"train on this device (default: {best_device()})")
    parser.add_argument("--output", type=Path, default=Path("digits.png"), help="write this plot (default: digits.png)")
    parser.add_argument("--seed", type=int, default=0, help="seed the weights and the split (default: 0)")
    options = parser.parse_args()
    if options.device == "xla" and find_spec("torch_xla") is None:
        parser.error("--device: expected an installed torch_xla for xla, got none; try --device cpu")
    try:
        device = open_device(options.device)
    except (RuntimeError, AssertionError) as error:
        parser.error(f"--device {options.device}: {str(error).splitlines()[0]}")
    torch.manual_seed(options.seed)
    untrained, runs = build(), []
    options.output.parent.mkdir(parents=True, exist_ok=True)
    learn, exam = load(options.seed, device)
    for name in ("float32", "autocast"):
        network = copy.deepcopy(untrained).to(device)
        losses, costs = train(network, learn, name == "autocast")
        predictions, dtypes = test(network, exam, name == "autocast")
        right = predictions == exam.labels.cpu()
        runs.append(Run(name, losses, costs, dtypes, predictions, right, 100 * right.double().mean().item()))
    report(runs, [type(layer).__name__ for layer in (*untrained, LOSS)], device)
    draw(Digits(exam.images.cpu(), exam.labels.cpu()), runs).savefig(options.output, dpi=120)
    print(f"\nthe loss curves and some of the test digits: {options.output}")


if __name__ == "__main__":
    main()
