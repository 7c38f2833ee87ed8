"""The engine of the benchmarks: interleaved rounds, medians, ratios, the machine's bandwidth, tables, a picture.

In a round everyone runs once, in an order that changes from round to round, so that whatever else the machine does
meets all alike. A ratio is the median of the ratios of the rounds. Beside it stands the middle half of them: where that
is wide, the machine was too busy to tell.
"""

import gc
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, quantiles
from time import perf_counter
from typing import NamedTuple, TypeAlias

import torch
from matplotlib.figure import Figure

LOOP_SECONDS = 10e-3
WARM_UP = 3
STREAMS = ("copy", "triad")
STREAM_ELEMENTS = 64 * 2**20

Seconds: TypeAlias = tuple[float, ...]
"""What one measurement gives: one figure or several, the longest of them last."""

Measure: TypeAlias = Callable[[], Seconds]

Ratios: TypeAlias = dict[str, dict[str, float]]
"""By rows of measurements, and then by contestants: how many times faster than the peer."""


class Spread(NamedTuple):
    """The median over the rounds, and the two quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Record:
    """The seconds that one contestant took in every round."""

    rounds: list[Seconds]

    def median(self, figure: int = 0) -> float:
        """The median seconds."""
        return median(seconds[figure] for seconds in self.rounds)


def ratio(dividend: Record, divisor: Record, figure: int = 0) -> Spread:
    """Return how many times longer the first took than the second, round by round; both ran in the same rounds."""
    pairs = zip(dividend.rounds, divisor.rounds, strict=True)
    ratios = [over[figure] / under[figure] for over, under in pairs]
    low, middle, high = quantiles(ratios * 2 if len(ratios) == 1 else ratios, method="inclusive")  # which takes two
    return Spread(middle, low, high)


def timed(call: Callable[[], object]) -> Measure:
    """Return a measurement of the call: the mean of as many as last about LOOP_SECONDS. It is warmed up here."""

    def once() -> Seconds:
        start = perf_counter()
        call()
        return (perf_counter() - start,)

    return repeated(once)


def repeated(once: Measure) -> Measure:
    """Return the measurement that takes the mean of as many as last about LOOP_SECONDS. It is warmed up here."""
    longest = min([once()[-1] for _ in range(1 + WARM_UP)][1:])
    number = max(1, round(LOOP_SECONDS / longest))

    def measure() -> Seconds:
        return tuple(map(fmean, zip(*[once() for _ in range(number)], strict=True)))

    return measure


def looped(loop: Callable[[int], float], seconds: float, trial: int = 1) -> Measure:
    """Return the measurement by a function that runs something so many times, and tells the seconds of one.

    A trial of so many tells how many last as long as asked for.
    """
    number = max(1, int(seconds / loop(trial)))
    return lambda: (loop(number),)


def interleave(measures: Mapping[str, Measure], rounds: Iterable[int]) -> dict[str, Record]:
    """Measure everyone once per round, without the garbage collector in between; rounds counts from 0."""
    records = {name: Record([]) for name in measures}
    names = list(measures)
    gc.collect()
    gc.disable()
    try:
        for number in rounds:
            for place in order(number, len(names)):
                records[names[place]].rounds.append(measures[names[place]]())
    finally:
        gc.enable()
    return records


def order(number: int, count: int) -> list[int]:
    """Return who runs when in a round, so that each runs first, and next after each other one, equally often.

    Source: E. J. Williams: Experimental designs balanced for the estimation of residual effects of treatments, 1949.

        >>> [order(number, 4) for number in range(4)]
        [[0, 3, 1, 2], [1, 0, 2, 3], [2, 1, 3, 0], [3, 2, 0, 1]]
    """
    zigzag = [count - place // 2 - 1 if place % 2 else place // 2 for place in range(count)]
    places = [(place + number) % count for place in zigzag]
    return places[::-1] if number // count % 2 else places


def streams() -> tuple[dict[str, Measure], dict[str, int]]:
    """Return the calls whose bandwidth stands for the machine's, and the bytes that each is taken to move.

    They hold three tensors of STREAM_ELEMENTS float32. Source: John D. McCalpin: STREAM, sustainable memory bandwidth
    in high performance computers, whose count this is: a write counts once, although a cache may read the line before.
    """
    a, b, c = (torch.full((STREAM_ELEMENTS,), value) for value in (0.0, 1.0, 2.0))
    calls = (lambda: a.copy_(b), lambda: torch.add(b, c, alpha=3.0, out=a))
    moved = (8 * STREAM_ELEMENTS, 12 * STREAM_ELEMENTS)
    return dict(zip(STREAMS, map(timed, calls), strict=True)), dict(zip(STREAMS, moved, strict=True))


def machine() -> str:
    """Say what the figures were taken on."""
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    busy = " (too busy for figures to rely on)" if load > cores / 2 else ""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    xla = sys.modules.get("torch_xla")
    runtime = f", torch_xla {xla.__version__} on {os.environ['PJRT_DEVICE']} with its own threads" if xla else ""
    return (
        f"{cores} cores of {name} ({torch.backends.cpu.get_cpu_capability()}), load {load:.1f}{busy}; torch "
        f"{torch.__version__} with {torch.get_num_threads()} threads{runtime}; GPUs were not measured"
    )


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows under the header, the first column to the left and the others to the right."""
    first, *others = (max(map(len, column)) for column in zip(header, *rows, strict=True))
    for row in (header, *rows):
        cells = [cell.rjust(width) for cell, width in zip(row[1:], others, strict=True)]
        print("  ".join([row[0].ljust(first), *cells]).rstrip())


def print_bandwidths(
    records: Mapping[str, Record], moved: Mapping[str, int], peer: str, bound_target: float | None
) -> dict[str, float]:
    """Print medians, ratios, bandwidths, and polycast's distance from what the triad's bandwidth allows.

    The records are those of the contestants, with "polycast" and the peer among them, and of the streams; moved says
    how many bytes each has to move. Returns the contestants' ratios to the peer.
    """
    faster = {name: ratio(records[peer], record) for name, record in records.items() if name not in STREAMS}
    rows = []
    for name, record in records.items():
        rate = f"{moved[name] / record.median() / 1e9:.3g}"
        rows.append([name, f"{record.median() * 1e3:.3f}", str(faster.get(name, "")), rate])
    print_table(["", "median ms", f"{peer} / this (middle half)", "GB/s"], rows)
    share = moved["triad"] / moved["polycast"]
    distance = Spread(*(figure * share for figure in ratio(records["polycast"], records["triad"])))
    kept = (
        f", target <= {bound_target}: {'pass' if distance.median <= bound_target else 'over'}" if bound_target else ""
    )
    print(f"polycast's time / (bytes to move / triad bandwidth of the round): {distance}{kept}")
    return {name: spread.median for name, spread in faster.items()}


def compare(
    title: str,
    peer: str,
    targets: Mapping[str, float],
    reports: Iterable[Callable[[], Ratios]],
    picture: Path | None,
) -> None:
    """Run each report, which prints a table, then print all ratios to the peer, and save the picture asked for."""
    print(machine(), flush=True)
    torch.manual_seed(0)
    ratios = Ratios()
    for report in reports:
        ratios |= report()
    print_ratios(f"{title}: {peer} / this", ratios, targets)
    if picture:
        draw(picture, f"{title} against {peer}", ratios, peer)
        print(f"\nSaved {picture}.")


def print_ratios(title: str, ratios: Ratios, targets: Mapping[str, float]) -> None:
    """Print the ratios of each row of measurements, and of "polycast" among them whether it keeps the target."""
    names = list(next(iter(ratios.values())))
    rows = []
    for label, row in ratios.items():
        target = targets.get(label)
        said = "none" if target is None else f">= {target:g}: {'pass' if row['polycast'] >= target else 'missed'}"
        rows.append([label, *(f"{row[name]:.3g}" for name in names), said])
    print()
    print_table([title, *names, "polycast's target"], rows)


def draw(path: Path, title: str, ratios: Ratios, peer: str) -> None:
    """Save a bar for each ratio: up from 1 where the contestant is faster than the peer, down where it is slower."""
    figure = Figure(figsize=(2 + 1.6 * len(ratios), 5), layout="constrained")
    axes = figure.add_subplot(yscale="log", title=title, ylabel=f"times faster than {peer} (log)")
    names = [name for name in next(iter(ratios.values())) if name != peer]
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        values = [row[name] for row in ratios.values()]
        places = [group + (index - (len(names) - 1) / 2) * width for group in range(len(ratios))]
        bars = axes.bar(places, [value - 1 for value in values], width, bottom=1, label=name)
        axes.bar_label(bars, [f"{value:.2g}" for value in values], fontsize=7, padding=2)
    axes.axhline(1, color="black", linewidth=1)
    axes.margins(y=0.1)
    axes.set_xticks(range(len(ratios)), list(ratios))
    figure.legend(loc="outside lower center", ncols=len(names))
    figure.savefig(path, dpi=150)
