"""The same work done in several ways: what is particular to benchmarks/cast_cache.py in measuring and drawing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from polycast import _compiled

from benchmarks.side_by_side import Record, finish, interleave, looped, ratio

WAYS = ("pure", "stock", "polycast", "kept")
LOOP_SECONDS = 0.05


@dataclass
class Case:
    """One workload, and what each way took for one call of it."""

    name: str
    runs: dict[str, Callable[[], object]]
    records: dict[str, Record] = field(default_factory=dict)

    def measure(self, rounds: int, device: str, clock: Callable[[], float]) -> "Case":
        """Run all ways in every round, each as often as LOOP_SECONDS ask for."""
        loops = {way: partial(seconds, run, way, device, clock) for way, run in self.runs.items()}
        measures = {way: looped(loop, LOOP_SECONDS) for way, loop in loops.items()}
        self.records = interleave(measures, rounds, f"{self.name:34}")
        return self

    def ratio(self, way: str, other: str) -> float:
        """Return the median over the rounds of one way's time by another's."""
        return ratio(self.records[way], self.records[other]).median


def seconds(run: Callable[[], object], way: str, device: str, clock: Callable[[], float], number: int) -> float:
    """Return how long one call of a way takes, after one that warms up."""
    if way == "stock":
        _compiled.uninstall_kernels(device)
    try:
        run()
        finish(device)
        start = clock()
        for _ in range(number):
            out = run()  # of what nobody holds, XLA computes nothing
            finish(device)
            del out
        return (clock() - start) / number
    finally:
        if way == "stock":
            _compiled.install_kernels(device, False)


def show(case: Case) -> None:
    """Print the medians of a case, and the ratio of every way to stock."""
    figures = "".join(f"{way:>10}{case.records[way].median() * 1e3:9.3f} ms" for way in case.runs)
    ratios = ", ".join(f"stock / {way} {case.ratio('stock', way):.2f}" for way in case.runs if way != "stock")
    pure = f", kept / pure {case.ratio('kept', 'pure'):.2f}" if "pure" in case.runs else ""
    print(f"{case.name:36}{figures}\n{'':38}{ratios}{pure}", flush=True)


def draw(cases: list[Case], path: Path) -> None:
    """Draw the time of each way, stock being 1."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(9, 0.6 + 0.5 * len(cases)), layout="constrained")
    axes = figure.subplots()
    colors = dict(zip(WAYS, ("#4daf4a", "#999999", "#377eb8", "#ff7f00"), strict=True))
    for row, case in enumerate(reversed(cases)):
        for index, way in enumerate(case.runs):
            axes.barh(row + 0.3 - 0.2 * index, case.ratio(way, "stock"), 0.2, color=colors[way])
    axes.set_yticks(range(len(cases)), [case.name for case in reversed(cases)])
    axes.axvline(1, color="black", linewidth=0.5)
    axes.set_xlabel("time by that of stock autocast")
    handles = [Patch(color=color, label=way) for way, color in colors.items()]
    figure.legend(handles=handles, loc="outside right upper")
    figure.savefig(path, dpi=120)
