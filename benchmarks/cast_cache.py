"""What the cast cache is worth: polycast, with and without kept casts, beside stock autocast and the pure model.

Inference and evaluation of an MLP, of a network like ResNet-18 and of a transformer with 6 layers; training of low-rank
adapters over frozen weights; ordinary training. All ways of a case run in turn: benchmarks/side_by_side.py. `pure` is
the model in bfloat16, without autocast.
"""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from polycast import _extension, cast_cache
from torch import Tensor, nn

from benchmarks.side_by_side import finish, interleave, looped, ratio

COLORS = {"pure": "#4daf4a", "stock": "#999999", "polycast": "#377eb8", "kept": "#ff7f00"}
LOOP_SECONDS = 0.05
BATCHES = 40  # in one region
Case = tuple[str, dict[str, Callable[[], object]]]  # what is done, and each way to do it
Ratios = dict[str, float]


def mlp() -> nn.Module:
    """Four linear layers of 2048."""
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(2048, 2048), nn.ReLU())))


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        first = [nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        self.body = nn.Sequential(*first, nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.around = nn.Conv2d(channels, out, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.around(x))


def resnet() -> nn.Module:
    """A network like ResNet-18, for images of 32 x 32."""
    stages = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [block for a, b, stride in stages for block in (Block(a, b, stride), Block(b, b, 1))]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), *blocks, *head)


def transformer() -> nn.Module:
    """Six layers of 512, without dropout."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


MODELS: dict[str, Callable[[], nn.Module]] = {"mlp": mlp, "resnet": resnet, "transformer": transformer}


def inputs(name: str, batch: int) -> Tensor:
    return torch.rand(batch, *{"mlp": (2048,), "resnet": (3, 32, 32), "transformer": (32, 512)}[name])


class AdaptedLinear(nn.Module):
    """A frozen linear layer plus a trainable low-rank one."""

    def __init__(self, base: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.base, self.down = base, nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + self.up(self.down(x))
        return out


def adapted(model: nn.Module) -> nn.Module:
    """Freeze a model, and put adapters to its linear layers."""
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, AdaptedLinear(child))
    return model


def inference(name: str, batch: int, device: str, one_region: bool) -> Case:
    """A region for each batch, without gradients, or one over many with frozen weights: a call is the whole region."""
    model = MODELS[name]().eval().requires_grad_(not one_region).to(device)
    low, kept = deepcopy(model).bfloat16(), deepcopy(model)
    cast_cache.keep(kept)
    x = inputs(name, batch).to(device)

    def call(module: nn.Module, x: Tensor, enabled: bool) -> object:
        with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=enabled):
            if not one_region:
                return module(x)
            for _ in range(BATCHES):
                out = module(x)  # XLA computes only what a variable holds
                finish(device)
                del out
            return None

    runs: dict[str, Callable[[], object]] = {"pure": partial(call, low, x.bfloat16(), False)}
    runs |= {way: partial(call, each, x, True) for way, each in (("stock", model), ("polycast", model), ("kept", kept))}
    return f"{'one region' if one_region else 'inference'}, {name}, batch {batch}", runs


def step(model: nn.Module, x: Tensor, device: str) -> Callable[[], object]:
    """Return one step of training."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def call() -> None:
        with torch.autocast(device, torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return call


def training(name: str, batch: int, device: str, adapters: bool = False) -> Case:
    """Ordinary training, every weight of it, or low-rank adapters over the frozen weights of every linear layer."""
    model, x = MODELS[name](), inputs(name, batch).to(device)
    models = {way: deepcopy(model).to(device) for way in ("stock", "polycast")}
    if adapters:
        model = adapted(model).to(device)
        models = {way: deepcopy(model) for way in ("stock", "polycast", "kept")}
        cast_cache.keep(models["kept"])
    kind = "adapters" if adapters else "training"
    return f"{kind}, {name}, batch {batch}", {way: step(each, x, device) for way, each in models.items()}


def cases(device: str, quick: bool) -> Iterator[Callable[[], Case]]:
    """Yield what makes each case, so that one model lives at a time."""
    for name in MODELS:
        for batch in (1,) if quick or device != "cpu" else (1, 16, 128):
            yield partial(inference, name, batch, device, False)
        yield partial(inference, name, 1, device, True)
        yield partial(training, name, 16, device)
    yield partial(training, "mlp", 16, device, True)
    yield partial(training, "transformer", 1, device, True)


def seconds(run: Callable[[], object], way: str, device: str, number: int) -> float:
    """Return how long one call of a way takes, after one that warms up."""
    if way == "stock":
        _extension.uninstall_kernels(device)
    try:
        run()
        finish(device)
        start = perf_counter()
        for _ in range(number):
            out = run()  # XLA computes only what a variable holds
            finish(device)
            del out
        return (perf_counter() - start) / number
    finally:
        if way == "stock":
            _extension.install_kernels(device, False)


def measure(case: Case, rounds: int, device: str) -> Ratios:
    """Run all ways in every round, print the medians, and return each time divided by stock's."""
    name, runs = case
    loops = {way: partial(seconds, run, way, device) for way, run in runs.items()}
    records = interleave({way: looped(loop, LOOP_SECONDS) for way, loop in loops.items()}, rounds)
    figures = "".join(f"{way:>10}{median(record) * 1e3:9.3f} ms" for way, record in records.items())
    stock, others = records["stock"], [way for way in records if way != "stock"]
    ratios = ", ".join(f"stock / {way} {ratio(stock, records[way]).median:.2f}" for way in others)
    pure = f", kept / pure {ratio(records['kept'], records['pure']).median:.2f}" if "pure" in runs else ""
    print(f"{name:36}{figures}\n{'':38}{ratios}{pure}", flush=True)
    return {way: ratio(record, stock).median for way, record in records.items()}


def draw(cases: dict[str, Ratios], path: Path) -> None:
    """Draw the time of each way, stock being 1."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(9, 0.6 + 0.5 * len(cases)), layout="constrained")
    axes = figure.subplots()
    for row, ratios in enumerate(reversed(cases.values())):
        for index, (way, taken) in enumerate(ratios.items()):
            axes.barh(row + 0.3 - 0.2 * index, taken, 0.2, color=COLORS[way])
    axes.set_yticks(range(len(cases)), [*reversed(cases)])
    axes.axvline(1, color="black", linewidth=0.5)
    axes.set_xlabel("time / time of stock autocast")
    figure.legend(handles=[Patch(color=color, label=way) for way, color in COLORS.items()], loc="outside right upper")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure case after case, print each, and draw them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "xla"), default="cpu")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each case (default: 15)")
    parser.add_argument("--only", default="", help="measure the cases whose names contain this")
    parser.add_argument("--quick", action="store_true", help="3 rounds at batch 1, to see that it runs")
    parser.add_argument("--picture", type=Path, default=Path("cast_cache.png"))
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: give 1 or more")
    if options.device == "xla":
        os.environ.setdefault("PJRT_DEVICE", "CPU")
        import torch_xla  # noqa: F401 -- brings the device
    rounds, measured = 3 if options.quick else options.rounds, {}
    for make in cases(options.device, options.quick):
        case = make()
        if options.only in case[0]:
            measured[case[0]] = measure(case, rounds, options.device)
        del case  # lets the models go
        gc.collect()
    draw(measured, options.picture)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
