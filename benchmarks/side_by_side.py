"""The engine of the benchmarks: interleaved rounds, medians, ratios, the machine's bandwidth, tables, a picture.

In a round everyone runs once, in an order that changes from round to round, so that whatever else the machine does
meets all alike. A ratio is the median of the ratios of the rounds. Beside it stands the middle half of them: where that
is wide, the machine was too busy to tell.
"""

import gc
import json
import os
import platform
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median, quantiles
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import torch

from benchmarks.shapes import Workload
from tests.support.progress import progress

LOOP_SECONDS = 10e-3
WARM_UP = 3
STREAMS = ("copy", "triad")
STREAM_ELEMENTS = 64 * 2**20

Seconds: TypeAlias = tuple[float, ...]
"""What one measurement gives: one figure or several, the longest of them last."""

Measure: TypeAlias = Callable[[], Seconds]


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


@dataclass(frozen=True)
class Figures:
    """What a contestant took, how many times faster than the peer it was, and its bandwidth."""

    seconds: float
    faster: Spread
    gigabytes_per_second: float | None = None


Results: TypeAlias = dict[str, dict[str, Figures]]
"""By rows of measurements, and then by contestants."""


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

    def measure() -> Seconds:
        return tuple(map(fmean, zip(*[once() for _ in range(number)], strict=True)))

    return measure


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

        >>> [order(number, 4) for number in range(4)]
        [[0, 3, 1, 2], [1, 0, 2, 3], [2, 1, 3, 0], [3, 2, 0, 1]]
    """
    zigzag = [count - place // 2 - 1 if place % 2 else place // 2 for place in range(count)]
    places = [(place + number) % count for place in zigzag]
    return places[::-1] if number // count % 2 else places


def streams(device: str = "cpu") -> tuple[dict[str, Measure], dict[str, int]]:
    """Return the calls whose bandwidth stands for the machine's, and the bytes that each is taken to move.

    They hold three tensors of STREAM_ELEMENTS float32. Source: John D. McCalpin: STREAM, sustainable memory bandwidth
    in high performance computers, whose count this is: a write counts once, although a cache may read the line before.
    """
    a, b, c = (torch.full((STREAM_ELEMENTS,), value, device=device) for value in (0.0, 1.0, 2.0))
    calls = (lambda: a.copy_(b), lambda: torch.add(b, c, alpha=3.0, out=a))
    moved = (8 * STREAM_ELEMENTS, 12 * STREAM_ELEMENTS)
    measures = [timed(call, device) for call in calls]
    return dict(zip(STREAMS, measures, strict=True)), dict(zip(STREAMS, moved, strict=True))


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
    for row in (header, *rows):
        cells = [cell.rjust(width) for cell, width in zip(row[1:], others, strict=True)]
        print("  ".join([row[0].ljust(first), *cells]).rstrip())


def measures_of(contestants: Mapping[str, Callable[[], Callable[[], object]]], device: str) -> dict[str, Measure]:
    """Return the measurement of what each contestant makes. If the device lacks one of torch's, a line says so."""
    measures = {}
    for name, make in contestants.items():
        try:
            measures[name] = timed(make(), device)
        except (RuntimeError, NotImplementedError) as error:
            if name == "polycast":
                raise
            print(f"{name} does not run on {device}: {str(error).splitlines()[0]}")
    return measures


def report(
    workload: Workload,
    contestants: Mapping[str, Callable[[], Callable[[], object]]],
    elements_moved: int,
    rounds: int,
    device: str,
    bound_target: float | None,
) -> Results:
    """Measure one workload and print its table: medians, ratios to torch's best, bandwidths.

    The contestants are "polycast", and torch's with the best first; each has to move so many elements for each of the
    workload's. The line below the table is polycast's distance from what the triad's bandwidth allows.
    """
    measures = measures_of(contestants, device)
    bandwidths, moved = streams(device)
    records = interleave(measures | bandwidths, rounds, workload.title)
    size = workload.dtype.itemsize * elements_moved
    moved |= dict.fromkeys(measures, size * workload.elements)
    peer = peer_of(measures)
    figures = {
        name: Figures(record.median(), ratio(records[peer], record), moved[name] / record.median() / 1e9)
        for name, record in records.items()
    }
    print(f"\n{workload.description}, {size} bytes each; {rounds} rounds")
    rows = []
    for name, found in figures.items():
        faster = "" if name in STREAMS else str(found.faster)
        rows.append([name, f"{found.seconds * 1e3:.3f}", faster, f"{found.gigabytes_per_second:.3g}"])
    print_table(["", "median ms", f"{peer} / this (middle half)", "GB/s"], rows)
    share = moved["triad"] / moved["polycast"]
    distance = Spread(*(figure * share for figure in ratio(records["polycast"], records["triad"])))
    kept = (
        f", target <= {bound_target}: {'pass' if distance.median <= bound_target else 'over'}" if bound_target else ""
    )
    print(f"polycast's time / (bytes to move / triad bandwidth of the round): {distance}{kept}", flush=True)
    return {workload.title: figures}


def chosen(implementations: Mapping[str, Any], best: bool) -> Mapping[str, Any]:
    """Return torch's implementations, or the first one, its best, alone."""
    return dict(list(implementations.items())[: 1 if best else None])


def peer_of(contestants: Iterable[str]) -> str:
    """Return the contestant that the others are compared with: the first of torch's."""
    return next(name for name in contestants if name != "polycast")


def compare(
    title: str, targets: Mapping[str, float], reports: Iterable[Callable[[], Results]], options: Namespace
) -> None:
    """Run each report, which prints a table, then print all ratios to the peer, and save what the options ask for.

    The JSON file is written anew after each report, so that a measurement that is stopped leaves those before.
    """
    print(machine(options.device), flush=True)
    torch.manual_seed(0)
    results = Results()
    for report in reports:
        results |= report()
        if options.json:
            rows = {label: {name: asdict(found) for name, found in row.items()} for label, row in results.items()}
            facts = {"title": title, "machine": machine(options.device), "rounds": options.rounds}
            options.json.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    peer = peer_of(contestants(results))
    print_ratios(f"{title}: {peer} / this", results, targets)
    if options.picture:
        draw(options.picture, f"{title} against {peer}", results, peer)
        print(f"\nSaved {options.picture}.")


def print_ratios(title: str, results: Results, targets: Mapping[str, float]) -> None:
    """Print the ratios of each row of measurements, and of "polycast" among them whether it keeps the target."""
    names = contestants(results)
    rows = []
    for label, row in results.items():
        target, ours = targets.get(label), row["polycast"].faster.median
        said = "none" if target is None else f">= {target:g}: {'pass' if ours >= target else 'missed'}"
        rows.append([label, *(f"{row[name].faster.median:.3g}" if name in row else "" for name in names), said])
    print()
    print_table([title, *names, "polycast's target"], rows)


def contestants(results: Results) -> list[str]:
    """Return who took part in any of the rows."""
    names = {name: None for row in results.values() for name in row}
    return [name for name in names if name not in STREAMS]


def draw(path: Path, title: str, results: Results, peer: str) -> None:
    """Save a bar for each ratio: up from 1 where the contestant is faster than the peer, down where it is slower."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2 + 1.6 * len(results), 5), layout="constrained")
    axes = figure.add_subplot(yscale="log", title=title, ylabel=f"times faster than {peer} (log)")
    names = [name for name in contestants(results) if name != peer]
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        values = [row[name].faster.median if name in row else 1.0 for row in results.values()]
        places = [group + (index - (len(names) - 1) / 2) * width for group in range(len(results))]
        bars = axes.bar(places, [value - 1 for value in values], width, bottom=1, label=name)
        axes.bar_label(bars, [f"{value:.2g}" for value in values], fontsize=7, padding=2)
    axes.axhline(1, color="black", linewidth=1)
    axes.margins(y=0.1)
    axes.set_xticks(range(len(results)), list(results))
    figure.legend(loc="outside lower center", ncols=len(names))
    figure.savefig(path, dpi=150)
