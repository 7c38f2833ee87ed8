"""What the benchmarks share: interleaved rounds, medians, ratios, workloads, the machine's bandwidth, tables.

In a round everyone runs once, in an order that changes from round to round, so that whatever else the machine does
meets all alike. A ratio is the median of the ratios of the rounds. Beside it stands the middle half of them: where that
is wide, the machine was too busy to tell.
"""

import gc
import os
import platform
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from statistics import fmean, median, quantiles
from time import perf_counter
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from tests.support.progress import progress

LOOP_SECONDS = 10e-3
WARM_UP = 3
STREAM_ELEMENTS = 64 * 2**20

Seconds: TypeAlias = tuple[float, ...]  # one figure or several, the longest of them last
Measure: TypeAlias = Callable[[], Seconds]
Contestants: TypeAlias = Mapping[str, Callable[[], Callable[[], object]]]  # what makes each, and returns a call of it
Shapes: TypeAlias = tuple[tuple[int, ...], ...]


class Spread(NamedTuple):
    """The median over the rounds, and the two quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


class Record(NamedTuple):
    """The seconds that one contestant took in every round."""

    rounds: list[Seconds]

    def median(self, figure: int = 0) -> float:
        return median(seconds[figure] for seconds in self.rounds)


Results: TypeAlias = dict[str, dict[str, Spread]]  # ratios to the peer, by rows of measurements and by contestants


def ratio(dividend: Record, divisor: Record, figure: int = 0) -> Spread:
    """Return how many times longer the first took than the second, round by round; both ran in the same rounds."""
    pairs = zip(dividend.rounds, divisor.rounds, strict=True)
    ratios = [over[figure] / under[figure] for over, under in pairs]
    low, middle, high = quantiles(ratios * 2 if len(ratios) == 1 else ratios, method="inclusive")  # which takes two
    return Spread(middle, low, high)


def finish(device: str) -> None:
    """Wait until the device has done all that it was given."""
    if device == "xla":
        import torch_xla

        torch_xla.sync(wait=True)
    elif device != "cpu":
        torch.accelerator.synchronize(device)


def timed(call: Callable[[], object], device: str = "cpu") -> Measure:
    """Return a measurement of the call: the mean of as many as last about LOOP_SECONDS. It is warmed up here.

    The device takes the calls one after the other, and the host waits for the last one only.
    """

    def loop(number: int) -> float:
        finish(device)
        start = perf_counter()
        for _ in range(number):
            call()
        finish(device)
        return (perf_counter() - start) / number

    for _ in range(WARM_UP):
        loop(1)
    return looped(loop, LOOP_SECONDS)


def repeated(once: Measure) -> Measure:
    """Return the measurement that takes the mean of as many as last about LOOP_SECONDS. It is warmed up here."""
    longest = min([once()[-1] for _ in range(1 + WARM_UP)][1:])
    number = max(1, round(LOOP_SECONDS / longest))
    return lambda: tuple(map(fmean, zip(*[once() for _ in range(number)], strict=True)))


def looped(loop: Callable[[int], float], seconds: float, trial: int = 1) -> Measure:
    """Return the measurement by a function that runs something so many times, and tells the seconds of one.

    A trial of so many tells how many last as long as asked for.
    """
    number = max(1, int(seconds / loop(trial)))
    return lambda: (loop(number),)


def interleave(measures: Mapping[str, Measure], rounds: int, title: str) -> dict[str, Record]:
    """Measure everyone once per round, without the garbage collector in between."""
    records = {name: Record([]) for name in measures}
    names = list(measures)
    gc.collect()
    gc.disable()
    try:
        for number in progress(range(rounds), title):
            for place in order(number, len(names)):
                records[names[place]].rounds.append(measures[names[place]]())
    finally:
        gc.enable()
    return records


def order(number: int, count: int) -> list[int]:
    """Return who runs when in a round, so that each runs first, and next after each other one, equally often.

    Source: E. J. Williams: Experimental designs balanced for the estimation of residual effects of treatments, 1949.
    """
    zigzag = [count - place // 2 - 1 if place % 2 else place // 2 for place in range(count)]
    places = [(place + number) % count for place in zigzag]
    return places[::-1] if number // count % 2 else places


def machine(device: str = "cpu") -> str:
    """Say what the figures were taken on."""
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    busy = " (too busy for figures to rely on)" if load > cores / 2 else ""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    xla = sys.modules.get("torch_xla")
    runtime = f", torch_xla {xla.__version__} on {os.environ['PJRT_DEVICE']} with its own threads" if xla else ""
    on = ""
    if device not in ("cpu", "xla"):
        named = getattr(torch.get_device_module(device), "get_device_name", None)
        on = f"{named()} ({device}), " if named else f"{device}, "
    return (
        f"{on}{cores} cores of {name} ({torch.backends.cpu.get_cpu_capability()}), load {load:.1f}{busy}; torch "
        f"{torch.__version__} with {torch.get_num_threads()} threads{runtime}"
    )


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows under the header, the first column to the left and the others to the right."""
    first, *others = (max(map(len, column)) for column in zip(header, *rows, strict=True))
    for name, *cells in (header, *rows):
        print("  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))]))


# The parameters of models, computed from their published numbers, as workloads of optimizers.


@dataclass(frozen=True)
class Workload:
    """The parameters of a model, or as many tensors of one shape, in one dtype."""

    title: str
    shapes: Shapes
    dtype: torch.dtype = torch.float32

    @property
    def elements(self) -> int:
        return sum(map(prod, self.shapes))

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.title}, {dtype}: {len(self.shapes)} tensors, {self.elements / 1e6:.1f}M elements"

    def random(self, device: torch.device | str = "cpu") -> list[Tensor]:
        """Return tensors of these shapes on the device, filled with normally distributed numbers.

        XLA gets those of the host, because it would compile a program for each shape.
        """
        drawn = "cpu" if torch.device(device).type == "xla" else device
        return [torch.randn(shape, device=drawn).to(device, self.dtype) for shape in self.shapes]

    def within(self, elements: float) -> "Workload":
        """Return as many of its tensors as hold so many elements of float32. The title says if any is left out."""
        tensors = len(self.shapes)
        while tensors > 1 and sum(map(prod, self.shapes[:tensors])) > elements:
            tensors -= 1
        if tensors == len(self.shapes):
            return self
        kept = replace(self, shapes=self.shapes[:tensors])
        return replace(kept, title=f"{self.title}, {kept.elements / self.elements:.0%} of them")


def resnet_50() -> Shapes:
    """Kaiming He and others: Deep residual learning for image recognition, 2015, table 1, in torchvision's order."""

    def convolution(before: int, after: int, kernel: int) -> Shapes:
        return (after, before, kernel, kernel), (after,), (after,)  # without bias, and its batch normalization

    shapes, channels = [*convolution(3, 64, 7)], 64
    for stage, count in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(count):
            shapes += (*convolution(channels, width, 1), *convolution(width, width, 3))
            shapes += convolution(width, 4 * width, 1)
            if block == 0:
                shapes += convolution(channels, 4 * width, 1)
            channels = 4 * width
    return (*shapes, (1000, channels), (1000,))


def gpt(vocabulary: int = 50257, context: int = 1024, width: int = 768, layers: int = 12) -> Shapes:
    """Return the shapes of a GPT-2, its smallest by default; the output shares the weight of the embedding.

    Source: Alec Radford and others: Language models are unsupervised multitask learners, 2019, table 2, and the code
    released with it, whose linear layers hold their weights transposed.
    """
    norm: Shapes = ((width,), (width,))
    attention: Shapes = ((width, 3 * width), (3 * width,), (width, width), (width,))
    perceptron: Shapes = ((width, 4 * width), (4 * width,), (4 * width, width), (width,))
    return ((vocabulary, width), (context, width), *(norm + attention + norm + perceptron) * layers, *norm)


MEBI = 2**20
WORKLOADS = {
    "64x1M": Workload("64 x 1M", ((MEBI,),) * 64),
    "resnet50": Workload("ResNet-50", resnet_50()),
    "gpt2": Workload("GPT-2 small", gpt()),
    "4000x64": Workload("4000 x 64", ((64,),) * 4000),
    "64x1M-bf16": Workload("64 x 1M bf16", ((MEBI,),) * 64, torch.bfloat16),
}
# Small enough that XLA compiles and runs them on the host in seconds.
XLA_WORKLOADS = {
    "20x256x256": Workload("20 x 256x256", ((256, 256),) * 20),
    "100x256x256": Workload("100 x 256x256", ((256, 256),) * 100),
    "transformer": Workload("transformer", gpt(vocabulary=1000, context=128, width=128, layers=4)),
}
assert (WORKLOADS["resnet50"].elements, WORKLOADS["gpt2"].elements) == (25_557_032, 124_439_808)  # as published


def free_bytes(device: str) -> int:
    """Return the free memory of the device, or half of the host's, which other programs use, too."""
    module = torch.get_device_module(device)
    if hasattr(module, "mem_get_info"):
        free: int = module.mem_get_info()[0]
        return free
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 512 for line in lines if line.startswith("MemAvailable:"))


def new_parser(description: str | None) -> ArgumentParser:
    """Return a parser of the options that the benchmarks over these workloads share."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="a device type of torch (default: cpu)")
    names = f"on xla {', '.join(XLA_WORKLOADS)}; elsewhere {', '.join(WORKLOADS)} (default: all of these)"
    parser.add_argument("--workload", nargs="+", metavar="NAME", help=names)
    parser.add_argument("--rounds", type=int, default=30, help="multiples of 6 balance the order (default: 30)")
    return parser


def parse(parser: ArgumentParser) -> tuple[Namespace, list[Workload]]:
    """Return the options and the workloads that they choose, made to fit the device, or exit saying what is wrong."""
    options = parser.parse_args()
    known = XLA_WORKLOADS if options.device == "xla" else WORKLOADS
    for name in options.workload or ():
        if name not in known:
            parser.error(f"--workload {name}: on {options.device} there are {', '.join(known)}")
    if options.rounds < 3:
        parser.error(f"--rounds {options.rounds}: quartiles need at least 3")
    chosen = [known[name] for name in options.workload or known]
    if options.device == "xla":
        os.environ.setdefault("PJRT_DEVICE", "CPU")
        import torch_xla  # noqa: F401

        return options, chosen
    try:
        torch.empty(0, device=options.device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        parser.error(f"--device {options.device}: {str(error).splitlines()[0]}")
    # Parameters, gradients and states of all contestants, and what torch's lists return: 16 times what is stepped.
    elements = 0.8 * free_bytes(options.device) / (16 * torch.float32.itemsize)
    return options, [workload.within(elements) for workload in chosen]


def report(
    workload: Workload, contestants: Contestants, elements_moved: int, rounds: int, device: str, target: float | None
) -> Results:
    """Measure one workload and print its table: medians, ratios to torch's best, bandwidths.

    The contestants are "polycast", and torch's with the best first; each has to move so many elements for each of the
    workload's. The line below the table is polycast's distance from what the triad's bandwidth allows.

    The bandwidth of copy and triad over three tensors stands for the machine's. Source: John D. McCalpin: STREAM,
    sustainable memory bandwidth in high performance computers, whose count this is: a write counts once, although a
    cache may read the line before.
    """
    a, b, c = (torch.full((STREAM_ELEMENTS,), value, device=device) for value in (0.0, 1.0, 2.0))
    measures = {name: timed(make(), device) for name, make in contestants.items()}
    measures["copy"] = timed(lambda: a.copy_(b), device)
    measures["triad"] = timed(lambda: torch.add(b, c, alpha=3.0, out=a), device)
    records = interleave(measures, rounds, workload.title)
    size = workload.dtype.itemsize * elements_moved
    moved = dict.fromkeys(contestants, size * workload.elements)
    moved |= {"copy": 8 * STREAM_ELEMENTS, "triad": 12 * STREAM_ELEMENTS}
    peer = list(contestants)[1]
    faster = {name: ratio(records[peer], records[name]) for name in contestants}
    print(f"\n{workload}, {size} bytes each; {rounds} rounds")
    rows = []
    for name, record in records.items():
        speed = f"{moved[name] / record.median() / 1e9:.3g}"
        rows.append([name, f"{record.median() * 1e3:.3f}", str(faster.get(name, "")), speed])
    print_table(["", "median ms", f"{peer} / this (middle half)", "GB/s"], rows)
    share = moved["triad"] / moved["polycast"]
    distance = Spread(*(figure * share for figure in ratio(records["polycast"], records["triad"])))
    said = "" if target is None else f", target <= {target}: {'pass' if distance.median <= target else 'over'}"
    print(f"polycast's time / (bytes to move / triad bandwidth of the round): {distance}{said}", flush=True)
    return {workload.title: faster}


def compare(title: str, targets: Mapping[str, float], reports: Iterable[Callable[[], Results]], device: str) -> None:
    """Run each report, which prints a table, then print all ratios, and whether polycast's keeps its target."""
    print(machine(device), flush=True)
    torch.manual_seed(0)
    results = Results()
    for each in reports:
        results |= each()
    names = list(next(iter(results.values())))
    rows = []
    for label, row in results.items():
        target, ours = targets.get(label), row["polycast"].median
        said = "none" if target is None else f">= {target:g}: {'pass' if ours >= target else 'missed'}"
        rows.append([label, *(f"{row[name].median:.3g}" for name in names), said])
    print()
    print_table([f"{title}: {names[1]} / this", *names, "polycast's target"], rows)
