"""Helpers of the benchmarks: interleaved rounds, medians, ratios and tables.

In a round, each implementation runs once. The order changes from round to round, so that background load affects all
implementations equally. A ratio is the median of the ratios of the rounds. Tables also show the middle half of these
ratios. If this range is wide, the machine was too busy.
"""

import gc
import os
import platform
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import NamedTuple, TypeAlias

import torch

LOOP_SECONDS = 10e-3
WARM_UP = 3

Measure: TypeAlias = Callable[[], float]  # The function returns the seconds of one call.
Record: TypeAlias = list[float]  # A record has the seconds of each round.


class Spread(NamedTuple):
    """The median over the rounds, and the two quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


def ratio(dividend: Record, divisor: Record) -> Spread:
    """Return the median and the quartiles of the ratios of two times in all rounds."""
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
    """Return a function that measures ``loop``, which runs code a number of times and returns the seconds of one run.

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


def new_parser(description: str | None, rounds: int) -> ArgumentParser:
    """Return a parser with the option that all benchmarks share."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"run this number of rounds (default: {rounds})")
    return parser


def parse(parser: ArgumentParser, least: int = 3) -> Namespace:
    """Return the options, or exit with an error if the device is absent or the rounds are too few for quartiles."""
    options = parser.parse_args()
    if options.rounds < least:
        parser.error(f"--rounds: expected at least {least}, got {options.rounds}; pass {least} or more")
    device = getattr(options, "device", "cpu")
    if device == "xla":
        os.environ.setdefault("PJRT_DEVICE", "CPU")
        import torch_xla  # noqa: F401 -- it registers the device
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        parser.error(f"--device {device}: {str(error).splitlines()[0]}")
    return options
