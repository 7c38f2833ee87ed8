"""What tune makes of networks: losses, times and memory of float32, of the built-in policy and of the tuned one.

Float32 is the training without a region. The built-in policy stands for stock autocast: on the CPU the losses of the
first seed are compared with those of torch's own kernels, bit for bit; torch_xla's autocast does not run on the host.
The losses are means over the seeds of the last tenth of the steps. The times are taken here anew, in turns: a ratio is
the median of the rounds, with its quartiles. The peaks of the memory are those that tune measured: of the process.
Two networks are broken, and tune is not told where. `--verify` measures again what the files of rules in a folder say,
as under another torch.

    python -m benchmarks.tuning [--only digits-cpu overflow] [--folder build/tuning]
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, quantiles
from time import perf_counter

import polycast
import torch
from polycast.debug.tuning.tuned import Tuned
from polycast.debug.tuning.verifying import Verified
from polycast.policy.plan import Plan

from tests.support.devices import lower_precision, seed, synchronize
from tests.support.networks.broken import BROKEN
from tests.support.networks.training import Step, Training
from tests.support.networks.working import WORKING
from tests.support.probe import HAS_XLA
from tests.support.progress import progress

ROUNDS, SECONDS = 9, 0.15  # of the times: the rounds, and the seconds of one contestant in each
NAMES = ("float32", "built-in", "tuned")
Losses = dict[int, list[float]]


@dataclass(frozen=True)
class Cell:
    """A network on a device, in a dtype."""

    name: str
    device: str
    dtype: torch.dtype
    make: Callable[[str, torch.dtype | None], Training]

    @property
    def data(self) -> str:
        """What the network and its batches are."""
        return (self.make.__doc__ or "").rstrip(".")

    @property
    def title(self) -> str:
        """Its name on the command line."""
        return f"{self.name}-{self.device}"


@dataclass(frozen=True)
class Measured:
    """A network under the three: by their names."""

    cell: Cell
    tuned: Tuned
    losses: dict[str, float]
    times: dict[str, list[float]]
    seconds: float
    is_stock: str
    """Whether the built-in policy gives the bits of torch's kernels."""

    def ratio(self, other: str) -> str:
        """Return how many times the time of another the tuned policy takes, with quartiles."""
        pairs = zip(self.times["tuned"], self.times[other], strict=True)
        low, middle, high = quantiles([one / two for one, two in pairs], n=4, method="inclusive")
        return f"{middle:.2f} ({low:.2f} to {high:.2f})"

    def cells(self) -> tuple[str, ...]:
        """The texts of its row."""
        peaks = [trial.peak for trial in (*self.tuned.trials[:2], self.tuned.best)]
        return (
            self.cell.title,
            str(self.cell.dtype).removeprefix("torch."),
            " ".join(f"{self.losses[name]:.3f}" for name in NAMES),
            " ".join(f"{1e3 * median(self.times[name]):.1f}" for name in NAMES),
            self.ratio("float32"),
            self.ratio("built-in"),
            " ".join("-" if peak is None else f"{peak / 1e6:.0f}" for peak in peaks),
            self.tuned.name,
            f"{self.seconds:.0f}",
            self.is_stock,
        )


HEAD = (
    "network",
    "dtype",
    "loss: float32 built-in tuned",
    "ms a step",
    "times float32's",
    "times built-in's",
    "peak MB",
    "result",
    "s",
    "stock",
)


def cells() -> list[Cell]:
    """Return all networks on all devices."""
    devices = ["cpu", "xla"] if HAS_XLA else ["cpu"]
    found = [Cell(name, on, lower_precision(on)[0], make) for on in devices for name, make in WORKING.items()]
    broken = {"overflow": torch.float16, "large mean": torch.bfloat16}
    return [*found, *(Cell(name.replace(" ", "_"), "cpu", broken[name], make) for name, make in BROKEN.items())]


def curve(training: Training, device: str, number: int) -> list[float]:
    """Return the losses of a training."""
    seed(device, number)
    step = training.make()
    return torch.stack([step(batch).float() for batch in training.batches]).tolist()


def final(losses: list[float]) -> float:
    """Return the mean of the last tenth."""
    return fmean(losses[-max(1, len(losses) // 10) :])


@contextmanager
def torch_kernels() -> Iterator[None]:
    """Run torch's own kernels in this block."""
    with warnings.catch_warnings(), polycast.uninstall():
        warnings.simplefilter("ignore")  # that the policy's kernels are not installed
        yield


def measure(cell: Cell, seeds: int, budget: float) -> Measured:
    """Tune a network; train it under the three with each seed, and time them in turns."""
    start = perf_counter()
    region, plain = cell.make(cell.device, cell.dtype), cell.make(cell.device, None)
    tuned = polycast.debug.tune(
        region.make, region.batches, dtype=cell.dtype, seeds=seeds, budget=budget, data=cell.data
    )
    contestants = {"float32": (plain, Plan()), "built-in": (region, Plan()), "tuned": (region, tuned.plan)}
    losses, steps, is_stock = {}, {}, "-"
    for name, (training, plan) in contestants.items():
        with polycast.use(plan):
            curves = [curve(training, cell.device, number) for number in range(seeds)]
            seed(cell.device)
            steps[name] = (training.make(), plan)
        losses[name] = fmean(map(final, curves))
        if name == "built-in" and cell.device == "cpu":
            with torch_kernels():
                is_stock = "bit-equal" if same(curve(training, cell.device, 0), curves[0]) else "DIFFERS"
    times = race(steps, region.batches, cell.device)
    return Measured(cell, tuned, losses, times, perf_counter() - start, is_stock)


def mended(tuned: Tuned) -> str:
    """Return the last plan that was made for the built-in policy, if that does not keep the loss."""
    if not tuned.trials[1].complaint or not tuned.trials[1].runs:
        return ""
    kept = [trial for trial in tuned.trials if trial.name.startswith("built-in, ") and not trial.complaint]
    return f"mended by {kept[-1].name}: {kept[-1].reason}\n" if kept else "NOT MENDED\n"


def verified(cell: Cell, path: Path) -> Verified:
    """Return what of a file of rules no longer holds here."""
    training = cell.make(cell.device, cell.dtype)
    return polycast.debug.verify_tuned(path, training.make, training.batches)


def same(one: list[float], other: list[float]) -> bool:
    """Return whether losses are the same numbers, NaN included."""
    return torch.equal(torch.tensor(one).view(torch.int32), torch.tensor(other).view(torch.int32))


def race(
    steps: dict[str, tuple[Step, Plan]], batches: list[tuple[torch.Tensor, ...]], device: str
) -> dict[str, list[float]]:
    """Return the seconds of a step of each in each round, in turns."""

    def run(name: str, count: int) -> float:
        step, plan = steps[name]
        with polycast.use(plan):
            synchronize(device)
            start = perf_counter()
            for number in range(count):
                step(batches[number % len(batches)])
            synchronize(device)
            return (perf_counter() - start) / count

    for name in steps:  # the first steps compile, or allocate
        run(name, 3)
    counts = {name: max(1, round(SECONDS / run(name, 3))) for name in steps}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(ROUNDS):
        for name in [*steps][number % 3 :] + [*steps][: number % 3]:
            times[name].append(run(name, counts[name]))
    return times


def table(rows: list[tuple[str, ...]]) -> str:
    """Return the rows as aligned lines."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def main() -> None:
    """Read the command line, tune, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {cell.title: cell for cell in cells()}
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[*known], choices=known, help=", ".join(known))
    parser.add_argument("--seeds", type=int, default=5, help="how many (default: 5)")
    parser.add_argument("--budget", type=float, default=40, help="seconds of tune for each network (default: 40)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default: 1, as the ops are small)")
    parser.add_argument("--folder", type=Path, help="where to save files of rules and pictures")
    parser.add_argument("--verify", type=Path, metavar="FOLDER", help="measure again what files of rules say")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.verify is not None:
        for path in sorted(options.verify.glob("*.yaml")):
            if path.stem in options.only:
                print(f"{path.name}: {verified(known[path.stem], path)}\n", flush=True)
        return
    found = []
    for name in progress(options.only, "networks", len(options.only)):
        found.append(measured := measure(known[name], options.seeds, options.budget))
        print(f"{name}: {measured.tuned.table()}\n{mended(measured.tuned)}", flush=True)
        if options.folder is not None:
            options.folder.mkdir(parents=True, exist_ok=True)
            measured.tuned.save(options.folder / f"{name}.yaml")
            measured.tuned.plot(options.folder / f"{name}.png")
    print(table([HEAD, *(row.cells() for row in found)]))
    print(f"\n{sum(row.seconds for row in found) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
