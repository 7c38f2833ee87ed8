"""Helpers of the benchmarks: interleaved rounds, medians, ratios, workloads and tables.

In a round each implementation runs once, in an order that changes from round to round, so that background load affects
all of them equally. A ratio is the median of the ratios of the rounds. The middle half of these ratios is printed next
to it: if that range is wide, the machine was too busy.
"""

import gc
import os
import platform
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

LOOP_SECONDS = 10e-3
WARM_UP = 3

Measure: TypeAlias = Callable[[], float]  # The function returns the seconds of one call.
Record: TypeAlias = list[float]  # The seconds of each round.
# For each implementation, a function that creates it and returns a function for one run.
Contestants: TypeAlias = dict[str, Callable[[], Callable[[], object]]]
Shapes: TypeAlias = tuple[tuple[int, ...], ...]


class Spread(NamedTuple):
    """The median over the rounds, and the two quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


def ratio(dividend: Record, divisor: Record) -> Spread:
    """Return the ratio of two times, from the ratios of all rounds."""
    low, middle, high = quantiles([a / b for a, b in zip(dividend, divisor, strict=True)], method="inclusive")
    return Spread(middle, low, high)


def finish(device: str) -> None:
    """Wait until the device has finished its work."""
    if device == "xla":
        import torch_xla

        torch_xla.sync(wait=True)
    elif device != "cpu":
        torch.accelerator.synchronize(device)


def timed(call: Callable[[], object], device: str = "cpu") -> Measure:
    """Warm up, and return a function that measures the mean seconds of a call over about ``LOOP_SECONDS``.

    The device runs the calls in order, and the CPU waits only for the last call. On XLA, the CPU waits for each call,
    because otherwise the calls would become one program.
    """

    def loop(number: int) -> float:
        finish(device)
        start = perf_counter()
        for _ in range(number):
            call()
            if device == "xla":
                finish(device)
        finish(device)
        return (perf_counter() - start) / number

    for _ in range(WARM_UP):
        loop(1)
    return looped(loop, LOOP_SECONDS)


def looped(loop: Callable[[int], float], seconds: float, trial: int = 1) -> Measure:
    """Return a measurement of a loop, which runs code a number of times and returns the seconds of one run.

    A trial run determines the number of repetitions for the requested duration.
    """
    number = max(1, int(seconds / loop(trial)))
    return lambda: loop(number)


def interleave(measures: Mapping[str, Measure], rounds: int) -> dict[str, Record]:
    """Measure each implementation once per round in changing order, with the garbage collector off."""
    records: dict[str, Record] = {name: [] for name in measures}
    names = list(measures)
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            first = number % len(names)
            for name in (names[first:] + names[:first])[:: -1 if number // len(names) % 2 else 1]:
                records[name].append(measures[name]())
    finally:
        gc.enable()
    return records


def machine(device: str = "cpu") -> str:
    """Return a description of this machine."""
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    busy = " (too busy for figures to rely on)" if load > cores / 2 else ""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    named = getattr(torch.get_device_module(device), "get_device_name", None) if device not in ("cpu", "xla") else None
    on = "" if device == "cpu" else f"{named()} ({device}), " if named else f"{device}, "
    return (
        f"{on}{cores} cores of {name} ({torch.backends.cpu.get_cpu_capability()}), load {load:.1f}{busy}; torch "
        f"{torch.__version__} with {torch.get_num_threads()} threads"
    )


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows under the header. The first column is left-aligned, and the others are right-aligned."""
    first, *others = (max(map(len, column)) for column in zip(header, *rows, strict=True))
    for name, *cells in (header, *rows):
        print("  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))]))


class Workload(NamedTuple):
    """The shapes and dtype of a model's parameters, from its published sizes, or of a number of equal tensors."""

    title: str
    shapes: Shapes
    dtype: torch.dtype = torch.float32

    @property
    def elements(self) -> int:
        return sum(map(prod, self.shapes))

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.title}, {dtype}: {len(self.shapes)} tensors, {self.elements / 1e6:.1f}M elements"

    def random(self, device: str) -> list[Tensor]:
        """Return normally distributed tensors.

        For XLA, the CPU draws the numbers, because XLA would compile a program for each shape.
        """
        drawn = "cpu" if device == "xla" else device
        return [torch.randn(shape, device=drawn).to(device, self.dtype) for shape in self.shapes]


def resnet_50() -> Shapes:
    """Return the shapes of ResNet-50, in torchvision's order. Source: Kaiming He and others: Deep residual learning for
    image recognition, 2015, table 1."""

    def convolution(before: int, after: int, kernel: int) -> Shapes:
        return (after, before, kernel, kernel), (after,), (after,)  # A convolution without bias, and a batch norm.

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
    """Return the shapes of a GPT-2, by default the smallest. The output layer shares the weight of the embedding.

    Source: Alec Radford and others: Language models are unsupervised multitask learners, 2019, table 2, and the code
    released with it, whose linear layers store transposed weights.
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
# Workloads that XLA compiles and runs on the CPU in seconds.
XLA_WORKLOADS = {
    "20x256x256": Workload("20 x 256x256", ((256, 256),) * 20),
    "100x256x256": Workload("100 x 256x256", ((256, 256),) * 100),
    "transformer": Workload("transformer", gpt(vocabulary=1000, context=128, width=128, layers=4)),
}
assert (WORKLOADS["resnet50"].elements, WORKLOADS["gpt2"].elements) == (25_557_032, 124_439_808)  # These are published.


def new_parser(description: str | None) -> ArgumentParser:
    """Return a parser of the options that all benchmarks of workloads share."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="run on this device type of PyTorch (default: cpu)")
    names = f"measure these: on xla {', '.join(XLA_WORKLOADS)}; otherwise {', '.join(WORKLOADS)} (default: all)"
    parser.add_argument("--workload", nargs="+", metavar="NAME", help=names)
    parser.add_argument("--rounds", type=int, default=30, help="run this number of rounds (default: 30)")
    return parser


def parse(parser: ArgumentParser) -> tuple[Namespace, list[Workload]]:
    """Return the options and the selected workloads, or exit with an error."""
    options = parser.parse_args()
    known = XLA_WORKLOADS if options.device == "xla" else WORKLOADS
    for name in options.workload or ():
        if name not in known:
            parser.error(f"--workload: expected one of {', '.join(known)}, got '{name}'; pass one of these")
    if options.rounds < 3:
        parser.error(f"--rounds: expected at least 3, got {options.rounds}; quartiles need 3 rounds")
    if options.device == "xla":
        os.environ.setdefault("PJRT_DEVICE", "CPU")
        import torch_xla  # noqa: F401
    try:
        torch.empty(0, device=options.device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        parser.error(f"--device {options.device}: {str(error).splitlines()[0]}")
    return options, [known[name] for name in options.workload or known]


def measure(workload: Workload, contestants: Contestants, rounds: int, device: str) -> None:
    """Measure a workload, and print its medians and ratios to the baseline.

    The first implementation is "polycast", and the second is the baseline.
    """
    records = interleave({name: timed(make(), device) for name, make in contestants.items()}, rounds)
    peer = list(contestants)[1]
    print(f"\n{workload}; {rounds} rounds")
    rows = [
        [name, f"{median(record) * 1e3:.3f}", str(ratio(records[peer], record))] for name, record in records.items()
    ]
    print_table(["", "median ms", f"{peer} / this (middle half)"], rows)
