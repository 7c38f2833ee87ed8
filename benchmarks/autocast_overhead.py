"""What polycast's autocast kernels cost beside torch's own, what its import costs, and what autocast gains here.

Every figure is a median over rounds. In a round the two sides run one right after the other, and which of them runs
first alternates, so that whatever else the machine does meets both alike. The ratio is the median of the ratios of the
rounds, and beside it stands the ratio of the medians: where the two differ, or where the control is not near 1, the
machine was too busy to tell.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median
from timeit import Timer

import polycast
import torch
from torch import nn
from tqdm import tqdm

LOOP_SECONDS = 2e-3
RATIO_TARGET = 1.05
IMPORT_TARGET = 0.3  # seconds


@dataclass
class Pair:
    """Two things measured in turn: the seconds of each in every round."""

    name: str
    first: Callable[[], float]
    second: Callable[[], float]
    seconds: list[tuple[float, float]] = field(default_factory=list)

    def run(self, rounds: Iterable[int]) -> "Pair":
        """Measure once to warm up, then once per round; even rounds begin with the first, odd ones with the second."""
        self.first()
        self.second()
        for number in rounds:
            if number % 2:
                after, before = self.second(), self.first()
                self.seconds.append((before, after))
            else:
                self.seconds.append((self.first(), self.second()))
        return self

    @property
    def medians(self) -> tuple[float, float]:
        """The median seconds of the first and of the second."""
        return median(first for first, _ in self.seconds), median(second for _, second in self.seconds)

    @property
    def ratio(self) -> float:
        """The median over the rounds of second by first."""
        return median(second / first for first, second in self.seconds)


@dataclass(frozen=True)
class Case:
    """A statement on tiny CPU tensors inside one long autocast region, or outside of any as the control."""

    name: str
    statement: str
    region: bool = True
    grad: bool = False

    def pair(self, tensors: dict[str, object]) -> Pair:
        """Return the statement under torch's kernels and under polycast's, in loops of about LOOP_SECONDS."""
        timer = Timer(self.statement, globals=tensors)
        number = max(1, round(LOOP_SECONDS * 1000 / self._seconds(timer, 1000)))

        def under(switch: Callable[..., None]) -> float:
            switch("cpu")
            return self._seconds(timer, number) / number

        return Pair(self.name, lambda: under(polycast.uninstall), lambda: under(polycast.install))

    def _seconds(self, timer: Timer, number: int) -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.region), torch.set_grad_enabled(self.grad):
            timer.timeit(number // 10 + 1)
            return timer.timeit(number)


CASES = (
    Case("no region (control)", "torch.mm(low, low)", region=False),
    Case("mm: nothing to cast", "torch.mm(low, low)"),
    Case("mm: two casts", "torch.mm(full, full)"),
    Case("linear: cached cast", "torch.nn.functional.linear(low, weight)", grad=True),
    Case("cat: promote", "torch.cat(mixed)"),
    Case("mse_loss: to float32", "torch.nn.functional.mse_loss(low, low)"),
)


def tensors() -> dict[str, object]:
    """Return what the cases name. The weight is a leaf, whose cast is kept; full is none, and is cast every time."""
    weight = torch.rand(8, 8, requires_grad=True)
    full, low = weight * 1, torch.rand(8, 8, dtype=torch.bfloat16)
    return {"torch": torch, "weight": weight, "full": full, "low": low, "mixed": [low, full.detach()]}


def import_seconds(package: str) -> float:
    """Return how long a fresh interpreter takes to import the package."""
    program = f"from time import perf_counter as now; start = now(); import {package}; print(now() - start)"
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout)


def convolution() -> Pair:
    """Return one convolution in float32 and under bfloat16 autocast, on the CPU and without gradients."""
    layer = nn.Conv2d(64, 128, (3, 3), stride=(2, 2), padding=(1, 1), bias=False)
    images = torch.rand(64, 64, 224, 224)
    timer = Timer("layer(images)", globals={"layer": layer, "images": images})

    def seconds(autocast: bool) -> float:
        with torch.no_grad(), polycast.autocast("cpu", torch.bfloat16, enabled=autocast):
            return timer.timeit(1)

    return Pair("convolution", lambda: seconds(False), lambda: seconds(True))


def verdict(value: float, target: float) -> str:
    """Say whether the value keeps the target."""
    return "pass" if value <= target else "over"


def main() -> None:
    """Measure, then print one table and two lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="rounds of each autocast row (default: 200)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds, to see that it runs")
    options = parser.parse_args()
    if options.rounds < 10:
        parser.error(f"--rounds {options.rounds}: a median needs at least 10")
    rounds = options.rounds // 10 if options.quick else options.rounds
    few = 3 if options.quick else 11

    named = tensors()
    rows = [case.pair(named).run(tqdm(range(rounds), desc=f"{case.name:22}", leave=False)) for case in CASES]
    polycast.install("cpu")
    start = Pair("import", lambda: import_seconds("torch"), lambda: import_seconds("polycast"))
    start.run(tqdm(range(few), desc="import", leave=False))
    gain = convolution().run(tqdm(range(few), desc="convolution", leave=False))

    print(f"autocast on the CPU, bfloat16, medians of {rounds} rounds; target: ratio <= {RATIO_TARGET}")
    print(f"{'':22}{'torch':>10}{'polycast':>12}{'ratio':>8}{'of medians':>12}")
    for row in rows:
        torch_time, polycast_time = row.medians
        figures = (
            f"{torch_time * 1e6:7.2f} us{polycast_time * 1e6:9.2f} us{row.ratio:8.3f}{polycast_time / torch_time:12.3f}"
        )
        print(f"{row.name:22}{figures}  {verdict(row.ratio, RATIO_TARGET)}")

    extra = median(second - first for first, second in start.seconds)
    print(f"\nimport, medians of {few} rounds; target: polycast adds <= {IMPORT_TARGET} s")
    print(f"torch {start.medians[0]:.2f} s, polycast {start.medians[1]:.2f} s (torch included)", end=", ")
    print(f"difference {extra:.2f} s  {verdict(extra, IMPORT_TARGET)}")

    print(f"\nConv2d(64, 128, 3, stride 2) on 64 x 64 x 224 x 224, medians of {few} rounds, no target")
    print(
        f"float32 {gain.medians[0]:.2f} s, bfloat16 autocast {gain.medians[1]:.2f} s, ratio {gain.ratio:.2f}", end=" "
    )
    print(f"({torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads)")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
