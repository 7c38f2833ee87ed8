"""The time that polycast adds to PyTorch: in autocast kernels, regions, policies and the import.

`benchmarks/side_by_side.py` describes the method. If the ratio without a region is not near 1, the machine is busy.

    python -m benchmarks.autocast_overhead
"""

import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from statistics import median
from timeit import Timer
from typing import Any

import polycast
import torch

from benchmarks.side_by_side import Measure, Record, interleave, looped, machine, new_parser, parse, print_table, ratio

LOOP_SECONDS = 2e-3

# The statements run on tiny CPU tensors in one long autocast region, which is disabled for the control.
CASES = {
    "no region (control)": "torch.mm(low, low)",
    "mm: nothing to cast": "torch.mm(low, low)",
    "mm: two casts": "torch.mm(full, full)",
    "linear: cached cast": "torch.nn.functional.linear(low, weight)",
    "cat: promote": "torch.cat(mixed)",
    "mse_loss: to float32": "torch.nn.functional.mse_loss(low, low)",
}
# A case has a statement, the op in the policy, and whether the baseline's region is enabled. A rule for an unlisted op
# registers an autocast kernel, which then runs in every enabled region. The baseline of such a rule disables its
# region, so that the op runs without the kernel.
POLICY_CASES = {
    "mm: a rule of its own": ("torch.mm(low, low)", "mm", True),
    "mm: another op's rule": ("torch.mm(low, low)", "softmax", True),
    "trunc: a rule, no cast": ("torch.trunc(low)", "trunc", False),
}


def tensors() -> dict[str, object]:
    """Return the tensors of the cases.

    The weight is a leaf, so a region casts it once. ``full`` is not a leaf, so each call casts it.
    """
    weight = torch.rand(8, 8, requires_grad=True)
    full, low = weight * 1, torch.rand(8, 8, dtype=torch.bfloat16)
    return {"torch": torch, "weight": weight, "full": full, "low": low, "mixed": [low, full.detach()]}


def loops(
    statement: str, named: dict[str, object], regions: Mapping[str, Callable[[], AbstractContextManager[Any]]]
) -> dict[str, Measure]:
    """Return measurements of a statement in each of the regions, in loops of about ``LOOP_SECONDS``."""
    timer = Timer(statement, globals=named)

    def loop(region: Callable[[], AbstractContextManager[Any]], number: int) -> float:
        with region(), torch.set_grad_enabled("weight" in statement):
            timer.timeit(number // 10 + 1)
            return timer.timeit(number) / number

    return {name: looped(partial(loop, region), LOOP_SECONDS, trial=1000) for name, region in regions.items()}


def kernels(case: str, named: dict[str, object]) -> dict[str, Measure]:
    """Return measurements of a case with PyTorch's kernels and with polycast's kernels."""

    def region(switch: Callable[..., object]) -> AbstractContextManager[Any]:
        switch("cpu")
        return torch.autocast("cpu", torch.bfloat16, enabled="control" not in case)

    switches = {"torch": polycast.uninstall, "polycast": polycast.install}
    return loops(CASES[case], named, {name: partial(region, switch) for name, switch in switches.items()})


def policies(case: str, named: dict[str, object]) -> dict[str, Measure]:
    """Return measurements of a case without a policy and with its policy."""
    statement, op, is_in_region = POLICY_CASES[case]
    policy = polycast.Policy({op: "lower_precision_fp"})
    none = partial(polycast.autocast, "cpu", enabled=is_in_region)
    return loops(statement, named, {"none": none, "policy": partial(polycast.autocast, "cpu", policy=policy)})


def regions() -> dict[str, Measure]:
    """Return measurements of creating, entering and leaving a region of PyTorch and of polycast."""

    def loop(package: Any, number: int) -> float:
        return Timer("with package.autocast('cpu'): pass", globals={"package": package}).timeit(number) / number

    packages = {"torch": torch, "polycast": polycast}
    return {name: looped(partial(loop, package), LOOP_SECONDS, trial=1000) for name, package in packages.items()}


def import_seconds(package: str) -> float:
    """Return the seconds that a new interpreter needs to import the package."""
    program = f"from time import perf_counter as now; start = now(); import {package}; print(now() - start)"
    return float(subprocess.check_output([sys.executable, "-c", program], text=True))


def added(more: Record, less: Record) -> float:
    """Return the median difference of the two times over the rounds."""
    return median(one - other for one, other in zip(more, less, strict=True))


def main() -> None:
    """Measure all cases, regions and the import, and print the results and the machine."""
    rounds = parse(new_parser(__doc__, rounds=200), least=10).rounds
    named, table = tensors(), []
    for name in CASES:
        records = interleave(kernels(name, named), rounds)
        times = [f"{median(record) * 1e6:.2f}" for record in records.values()]
        table.append([name, *times, str(ratio(records["polycast"], records["torch"]))])
    print(f"autocast on the CPU, bfloat16, medians of {rounds} rounds")
    print_table(["", "torch us", "polycast us", "polycast / torch (middle half)"], table)
    polycast.install("cpu")
    table = []
    for name in POLICY_CASES:
        records = interleave(policies(name, named), rounds)
        times = [f"{median(record) * 1e6:.2f}" for record in records.values()]
        table.append([name, *times, f"{added(records['policy'], records['none']) * 1e9:.0f}"])
    print("\na call under a policy and under none")
    print_table(["", "none us", "policy us", "adds ns"], table)
    records = interleave(regions(), rounds)
    spread, (stock, ours) = ratio(records["polycast"], records["torch"]), map(median, records.values())
    print(f"\nto make, enter and leave a region: torch {stock * 1e6:.1f} us, polycast {ours * 1e6:.1f} us,", end=" ")
    print(f"ratio {spread}")
    imports = interleave({name: partial(import_seconds, name) for name in ("torch", "polycast")}, 11)
    more = added(imports["polycast"], imports["torch"])
    print(f"\nimport, medians of 11 rounds: torch {median(imports['torch']):.2f} s; polycast adds {more:.2f} s")
    print(machine())


if __name__ == "__main__":
    main()
