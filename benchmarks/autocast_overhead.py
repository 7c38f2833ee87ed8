"""What polycast's autocast kernels cost beside torch's own, and policies beside none; what its import costs and gains.

How it is measured: benchmarks/side_by_side.py. Where the control is not near 1, the machine was too busy to tell.

    python benchmarks/autocast_overhead.py
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from timeit import Timer

sys.path.insert(0, str(Path(__file__).parent.parent))

import polycast
import torch
from torch import nn

from benchmarks.side_by_side import Measure, Record, Seconds, interleave, looped, machine, print_table, ratio

LOOP_SECONDS = 2e-3
RATIO_TARGET = 1.05
IMPORT_TARGET = 0.3  # seconds
BASE_TARGET, BOXED_TARGET = 50, 1500  # nanoseconds that a policy may add to a call


@dataclass(frozen=True)
class Case:
    """A statement on tiny CPU tensors inside one long autocast region, or outside of any as the control."""

    name: str
    statement: str
    region: bool = True
    grad: bool = False

    def measures(self, tensors: dict[str, object]) -> dict[str, Measure]:
        """Return the statement under torch's kernels and under polycast's, in loops of about LOOP_SECONDS."""
        timer = Timer(self.statement, globals=tensors)

        def loop(switch: Callable[..., object], number: int) -> float:
            switch("cpu")
            with torch.autocast("cpu", torch.bfloat16, enabled=self.region), torch.set_grad_enabled(self.grad):
                timer.timeit(number // 10 + 1)
                return timer.timeit(number) / number

        switches = {"torch": polycast.uninstall, "polycast": polycast.install}
        return {name: looped(partial(loop, switch), LOOP_SECONDS, trial=1000) for name, switch in switches.items()}


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


def lowered(op: str) -> polycast.Policy:
    """Return the policy that runs an op in the dtype of the region."""
    return polycast.Policy({op: "lower_precision_fp"})


@dataclass(frozen=True)
class PolicyCase:
    """A statement in a region with a policy, beside the same in a region without."""

    name: str
    statement: str
    policy: polycast.Policy
    target: float
    beside: bool  # whether the other side is in a region

    def measures(self, tensors: dict[str, object]) -> dict[str, Measure]:
        """Return the statement under no policy and under the rules."""
        timer = Timer(self.statement, globals=tensors)

        def loop(policy: polycast.Policy | None, number: int) -> float:
            region = polycast.autocast("cpu", enabled=self.beside)
            with polycast.autocast("cpu", policy=policy) if policy else region, torch.no_grad():
                timer.timeit(number // 10 + 1)
                return timer.timeit(number) / number

        policies = {"none": None, "policy": self.policy}
        return {name: looped(partial(loop, policy), LOOP_SECONDS, trial=1000) for name, policy in policies.items()}


# An op that the base does not list has a kernel while a policy names it, in regions without that policy too: so the
# other side is in none, where the op goes the way that it goes in a region of torch's.
POLICY_CASES = (
    PolicyCase("mm: a rule of its own", "torch.mm(low, low)", lowered("mm"), BASE_TARGET, True),
    PolicyCase("mm: another op's rule", "torch.mm(low, low)", lowered("softmax"), BASE_TARGET, True),
    PolicyCase("trunc: a rule, no cast", "torch.trunc(low)", lowered("trunc"), BOXED_TARGET, False),
)


def import_seconds(package: str) -> Seconds:
    """Return how long a fresh interpreter takes to import the package."""
    program = f"from time import perf_counter as now; start = now(); import {package}; print(now() - start)"
    return (float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout),)


def convolution() -> dict[str, Measure]:
    """Return one convolution in float32 and under bfloat16 autocast, on the CPU and without gradients."""
    layer = nn.Conv2d(64, 128, (3, 3), stride=(2, 2), padding=(1, 1), bias=False)
    images = torch.rand(64, 64, 224, 224)
    timer = Timer("layer(images)", globals={"layer": layer, "images": images})

    def measure(autocast: bool) -> Seconds:
        with torch.no_grad(), polycast.autocast("cpu", torch.bfloat16, enabled=autocast):
            return (timer.timeit(1),)

    measure(True)  # warms up
    return {"float32": partial(measure, False), "bfloat16": partial(measure, True)}


def measured(name: str, measures: Mapping[str, Measure], rounds: int) -> dict[str, Record]:
    """Measure in turn, with a progress bar."""
    return interleave(measures, rounds, f"{name:22}")


def verdict(value: float, target: float) -> str:
    """Say whether the value keeps the target."""
    return "pass" if value <= target else "over"


def main() -> None:
    """Measure, then print one table and two lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="rounds of each case of autocast (default: 200)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds, to see that it runs")
    options = parser.parse_args()
    if options.rounds < 10:
        parser.error(f"--rounds {options.rounds}: a median needs at least 10")
    rounds = options.rounds // 10 if options.quick else options.rounds
    few = 3 if options.quick else 11

    named = tensors()
    rows = {case.name: measured(case.name, case.measures(named), rounds) for case in CASES}
    polycast.install("cpu")
    policies = {case: measured(case.name, case.measures(named), rounds) for case in POLICY_CASES}
    packages = {name: partial(import_seconds, name) for name in ("torch", "polycast")}
    imports = measured("import", packages, few)
    gain = measured("convolution", convolution(), few)

    print(f"autocast on the CPU, bfloat16, medians of {rounds} rounds; target: ratio <= {RATIO_TARGET}")
    table = []
    for name, records in rows.items():
        spread = ratio(records["polycast"], records["torch"])
        times = [f"{record.median() * 1e6:.2f}" for record in records.values()]
        table.append([name, *times, str(spread), verdict(spread.median, RATIO_TARGET)])
    print_table(["", "torch us", "polycast us", "polycast / torch (middle half)", ""], table)

    print(f"\na call in a region with a policy beside one without, medians of {rounds} rounds")
    table = []
    for case, records in policies.items():
        none, policy = records["none"], records["policy"]
        added = 1e9 * median(ours[0] - theirs[0] for ours, theirs in zip(policy.rounds, none.rounds, strict=True))
        times = [f"{record.median() * 1e6:.2f}" for record in (none, policy)]
        table.append([case.name, *times, f"{added:.0f}", f"{case.target:.0f} {verdict(added, case.target)}"])
    print_table(["", "none us", "policy us", "added ns", "target"], table)

    pairs = zip(imports["polycast"].rounds, imports["torch"].rounds, strict=True)
    extra = median(ours[0] - theirs[0] for ours, theirs in pairs)
    print(f"\nimport, medians of {few} rounds; target: polycast adds <= {IMPORT_TARGET} s")
    print(
        f"torch {imports['torch'].median():.2f} s, polycast {imports['polycast'].median():.2f} s (with torch)", end=", "
    )
    print(f"difference {extra:.2f} s  {verdict(extra, IMPORT_TARGET)}")

    print(f"\nConv2d(64, 128, 3, stride 2) on 64 x 64 x 224 x 224, medians of {few} rounds, no target")
    times = [f"{name} {record.median():.2f} s" for name, record in gain.items()]
    print(f"{', '.join(times)} under autocast, ratio {ratio(gain['bfloat16'], gain['float32'])}")
    print(machine())


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
