"""The speed of polycast with and without kept casts, compared with stock autocast and with a model in bfloat16.

The cases are inference and training of an MLP, a ResNet-18 and a transformer with six layers. Two more cases train
low-rank adapters over frozen weights. `benchmarks/side_by_side.py` describes how the variants of a case are
interleaved. The variant `pure` is the model in bfloat16, without autocast.
"""

import gc
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from statistics import median
from time import perf_counter

import torch
from polycast import _extension, cast_cache
from torch import Tensor, nn
from torchvision.models.resnet import resnet18

from benchmarks.side_by_side import finish, interleave, looped, new_parser, parse, ratio

LOOP_SECONDS = 0.05
Case = tuple[str, dict[str, Callable[[], object]]]  # A case has a title, and a function for each variant.


def mlp() -> nn.Module:
    """Return four linear layers of width 2048, each with a ReLU."""
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(2048, 2048), nn.ReLU())))


def resnet() -> nn.Module:
    """Return a ResNet-18 for images of 32 x 32 pixels."""
    model: nn.Module = resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return model


def transformer() -> nn.Module:
    """Return a transformer of six layers of width 512, without dropout."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


MODELS: dict[str, Callable[[], nn.Module]] = {"mlp": mlp, "resnet": resnet, "transformer": transformer}


def inputs(name: str, batch: int) -> Tensor:
    return torch.rand(batch, *{"mlp": (2048,), "resnet": (3, 32, 32), "transformer": (32, 512)}[name])


class AdaptedLinear(nn.Module):
    """A frozen linear layer plus a trainable low-rank layer."""

    def __init__(self, base: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.base, self.down = base, nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + self.up(self.down(x))
        return out


def adapted(model: nn.Module) -> nn.Module:
    """Freeze a model, and add adapters to its linear layers."""
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, AdaptedLinear(child))
    return model


def inference(name: str, batch: int, device: str) -> Case:
    """Return the variants of inference without gradients, with a region for each batch."""
    model = MODELS[name]().eval().to(device)
    low, kept = deepcopy(model).bfloat16(), deepcopy(model)
    cast_cache.keep(kept)
    x = inputs(name, batch).to(device)

    def call(module: nn.Module, x: Tensor, enabled: bool) -> object:
        with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=enabled):
            return module(x)

    runs: dict[str, Callable[[], object]] = {"pure": partial(call, low, x.bfloat16(), False)}
    runs |= {way: partial(call, each, x, True) for way, each in (("stock", model), ("polycast", model), ("kept", kept))}
    return f"inference, {name}, batch {batch}", runs


def step(model: nn.Module, x: Tensor, device: str) -> Callable[[], object]:
    """Return a function that runs one training step."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def call() -> None:
        with torch.autocast(device, torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return call


def training(name: str, batch: int, device: str, adapters: bool = False) -> Case:
    """Return the variants of a training step of all weights, or of low-rank adapters over frozen weights."""
    model, x = MODELS[name](), inputs(name, batch).to(device)
    models = {way: deepcopy(model).to(device) for way in ("stock", "polycast")}
    if adapters:
        model = adapted(model).to(device)
        models = {way: deepcopy(model) for way in ("stock", "polycast", "kept")}
        cast_cache.keep(models["kept"])
    kind = "adapters" if adapters else "training"
    return f"{kind}, {name}, batch {batch}", {way: step(each, x, device) for way, each in models.items()}


def cases(device: str) -> Iterator[Callable[[], Case]]:
    """Yield a function for each case, which creates the models. Only the models of one case are in memory at a time."""
    for name in MODELS:
        for batch in (1, 16, 128) if device == "cpu" else (1,):
            yield partial(inference, name, batch, device)
        yield partial(training, name, 16, device)
    yield partial(training, "mlp", 16, device, True)
    yield partial(training, "transformer", 1, device, True)


def seconds(run: Callable[[], object], way: str, device: str, number: int) -> float:
    """Return the mean seconds of a call of a variant, after a warm-up call."""
    if way == "stock":
        _extension.uninstall_kernels(device)
    try:
        run()
        finish(device)
        start = perf_counter()
        for _ in range(number):
            out = run()  # XLA computes only results that a variable refers to.
            finish(device)
            del out
        return (perf_counter() - start) / number
    finally:
        if way == "stock":
            _extension.install_kernels(device, False)


def measure(case: Case, rounds: int, device: str) -> None:
    """Run all variants of a case in every round, and print the medians and ratios."""
    name, runs = case
    loops = {way: partial(seconds, run, way, device) for way, run in runs.items()}
    records = interleave({way: looped(loop, LOOP_SECONDS) for way, loop in loops.items()}, rounds)
    figures = "".join(f"{way:>10}{median(record) * 1e3:9.3f} ms" for way, record in records.items())
    stock, others = records["stock"], [way for way in records if way != "stock"]
    ratios = ", ".join(f"stock / {way} {ratio(stock, records[way]).median:.2f}" for way in others)
    pure = f", kept / pure {ratio(records['kept'], records['pure']).median:.2f}" if "pure" in runs else ""
    print(f"{name:36}{figures}\n{'':38}{ratios}{pure}", flush=True)


def main() -> None:
    """Measure each selected case, and print the results."""
    parser = new_parser(__doc__, rounds=15)
    parser.add_argument("--device", choices=("cpu", "xla"), default="cpu")
    parser.add_argument("--only", default="", help="measure the cases whose titles contain this text (default: all)")
    options = parse(parser)
    for make in cases(options.device):
        case = make()
        if options.only in case[0]:
            measure(case, options.rounds, options.device)
        del case  # This frees the models.
        gc.collect()


if __name__ == "__main__":
    main()
