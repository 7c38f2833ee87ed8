"""What the cast cache is worth: polycast, with and without kept casts, beside stock autocast and the pure model.

Inference and evaluation of an MLP, of a network like ResNet-18 and of a transformer with 6 layers; training of low-rank
adapters over frozen weights; ordinary training. All ways of a case run in turn, in an order that moves on from round to
round, so that whatever else the machine does meets all alike; each figure is a median over rounds, and each ratio the
median of the ratios of the rounds. `pure` is the model in bfloat16, without autocast.
"""

import argparse
import gc
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

if __name__ == "__main__":  # ahead of the imports that take seconds, so that Ctrl-C ends those in one line too
    signal.signal(signal.SIGINT, lambda *_: sys.exit("\nStopped."))

import polycast
import torch
from polycast import cast_cache
from torch import Tensor, nn

from benchmarks.cast_cache_models import MODELS, Adapted, inputs
from benchmarks.side_by_side import finish
from benchmarks.ways import Case, draw, show
from tests.support.progress import progress

TRAINING_WAYS = ("stock", "polycast")
BATCHES = 40  # in one region


def region(device: str) -> torch.autocast:
    """Open the region that all ways but the pure one run in."""
    return torch.autocast(device, torch.bfloat16)


def inference(name: str, batch: int, device: str) -> Case:
    """A region for each batch, without gradients."""
    model = MODELS[name]().eval().to(device)
    low, kept = deepcopy(model).bfloat16(), deepcopy(model)
    cast_cache.keep(kept)
    x = inputs(name, batch).to(device)

    def run(module: nn.Module, x: Tensor, enabled: bool) -> Callable[[], object]:
        def call() -> object:
            with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=enabled):
                return module(x)

        return call

    runs = {"pure": run(low, x.bfloat16(), False)}
    runs |= {way: run(module, x, True) for way, module in (("stock", model), ("polycast", model), ("kept", kept))}
    return Case(f"inference, {name}, batch {batch}", runs)


def evaluation(name: str, batch: int, device: str) -> Case:
    """One region over many batches with frozen weights; a call is the whole region."""
    model = MODELS[name]().eval().requires_grad_(False).to(device)
    low, kept = deepcopy(model).bfloat16(), deepcopy(model)
    cast_cache.keep(kept)
    x = inputs(name, batch).to(device)

    def run(module: nn.Module, x: Tensor, enabled: bool) -> Callable[[], object]:
        def call() -> None:
            with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=enabled):
                for _ in range(BATCHES):
                    out = module(x)  # of what nobody holds, XLA computes nothing
                    finish(device)
                    del out

        return call

    runs = {"pure": run(low, x.bfloat16(), False)}
    runs |= {way: run(module, x, True) for way, module in (("stock", model), ("polycast", model), ("kept", kept))}
    return Case(f"one region, {name}, batch {batch}", runs)


def step(model: nn.Module, x: Tensor, device: str) -> Callable[[], object]:
    """Return one step of training."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def call() -> None:
        with region(device):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return call


def training(name: str, batch: int, device: str) -> Case:
    """Ordinary training, every weight of it."""
    model, x = MODELS[name]().to(device), inputs(name, batch).to(device)
    return Case(f"training, {name}, batch {batch}", {way: step(deepcopy(model), x, device) for way in TRAINING_WAYS})


def adapters(name: str, batch: int, device: str) -> Case:
    """Low-rank adapters over the frozen weights of every linear layer."""
    model, x = Adapted(MODELS[name]()).to(device), inputs(name, batch).to(device)
    kept = deepcopy(model)
    cast_cache.keep(kept)
    models = {"stock": model, "polycast": deepcopy(model), "kept": kept}
    return Case(f"adapters, {name}, batch {batch}", {way: step(m, x, device) for way, m in models.items()})


def regions(device: str) -> list[Case]:
    """A region with nothing in it, and one with a single layer."""
    layer, x = nn.Linear(64, 64).to(device), torch.rand(1, 64, device=device)

    def empty() -> None:
        with region(device):
            pass

    def one(grad: bool) -> Callable[[], object]:
        def call() -> None:
            with torch.set_grad_enabled(grad), region(device):
                layer(x)

        return call

    cases = {"an empty region": empty, "one layer, training": one(True), "one layer, no_grad": one(False)}
    return [Case(name, dict.fromkeys(TRAINING_WAYS, run)) for name, run in cases.items()]


def peak_memory(rounds: int) -> float:
    """Return the ratio of the peak memory of training under polycast to that under stock, of separate processes."""
    peaks: dict[str, list[int]] = {"stock": [], "polycast": []}
    for _ in progress(range(rounds), "peak memory"):
        for way in peaks:
            command = [sys.executable, "-m", "benchmarks.cast_cache", "--peak", way]
            peaks[way].append(int(subprocess.run(command, capture_output=True, check=True, text=True).stdout))
    return median(peaks["polycast"]) / median(peaks["stock"])


def report_peak(way: str) -> None:
    """Train in this process and print its peak memory in KiB."""
    if way == "stock":
        polycast.uninstall("cpu")
    run = step(MODELS["transformer"](), inputs("transformer", 16), "cpu")
    for _ in range(10):
        run()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def all_cases(device: str, quick: bool) -> list[Callable[[], Case]]:
    """Return what makes each case, so that one model lives at a time."""
    batches = (1,) if quick or device != "cpu" else (1, 16, 128)
    makers: list[Callable[[], Case]] = []
    for name in MODELS:
        makers += [lambda n=name, b=batch: inference(n, b, device) for batch in batches]  # type: ignore[misc]
        makers += [lambda n=name: evaluation(n, 1, device)]  # type: ignore[misc]
        makers += [lambda n=name: training(n, 16, device)]  # type: ignore[misc]
    return [*makers, lambda: adapters("mlp", 16, device), lambda: adapters("transformer", 1, device)]


def main() -> None:
    """Measure case after case, print each, and draw them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "xla"), default="cpu")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each case (default: 15)")
    parser.add_argument("--only", default="", help="measure the cases whose names contain this")
    parser.add_argument("--quick", action="store_true", help="3 rounds at batch 1, to see that it runs")
    parser.add_argument("--busy", action="store_true", help="one thread, processor time: for a machine with other work")
    parser.add_argument("--picture", type=Path, default=Path("cast_cache.png"))
    parser.add_argument("--peak", choices=TRAINING_WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: give 1 or more")
    if options.peak:
        report_peak(options.peak)
        return
    if options.device == "xla":
        os.environ.setdefault("PJRT_DEVICE", "CPU")
        import torch_xla  # noqa: F401 -- brings the device
    if options.busy:
        torch.set_num_threads(1)
    clock = process_time if options.busy else perf_counter
    cases = []
    makers = [*(lambda c=case: c for case in regions(options.device)), *all_cases(options.device, options.quick)]
    for make in makers:
        case = make()
        if options.only in case.name:
            cases.append(case.measure(3 if options.quick else options.rounds, options.device, clock))
            show(case)
        case.runs = dict.fromkeys(case.runs, lambda: None)  # lets the models go
        gc.collect()
    if options.device == "cpu" and options.only in "peak memory":
        print(f"peak memory of training, polycast / stock: {peak_memory(5):.3f}")
    draw(cases, options.picture)


if __name__ == "__main__":
    main()
