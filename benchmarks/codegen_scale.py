"""What codegen costs for policies of up to 10,000 ops on 10 devices, and that its cost grows no faster than the policy.

python benchmarks/codegen_scale.py

Seconds and memory are measured in passes of their own, as counting memory takes time. The seconds are those of the
processor, the least of the rounds; the memory is the most that Python held at once, in MiB.
"""

import sys
import tracemalloc
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

sys.path.insert(0, str(Path(__file__).parent.parent))

from tqdm import tqdm

from codegen.parse import read_policy
from codegen.render import render
from codegen.schemas import Schemas
from testing.long_policy import DEVICES, policy, schemas

SIZES = (1_250, 2_500, 5_000, 10_000)


@dataclass(frozen=True)
class Cost:
    """What a policy of some ops takes to be read and to be rendered: seconds, and MiB held at most."""

    ops: int
    read: float
    render: float
    read_memory: float
    render_memory: float

    @property
    def per_op(self) -> tuple[float, ...]:
        """The milliseconds and KiB of one op."""
        seconds, memory = (self.read, self.render), (self.read_memory, self.render_memory)
        return *(value * 1e3 / self.ops for value in seconds), *(value * 2**10 / self.ops for value in memory)


def seconds(path: Path, torch: Schemas) -> tuple[float, float]:
    """Return what reading and rendering take."""
    start = process_time()
    found = read_policy(path, path.name, torch)
    middle = process_time()
    render(found)
    return middle - start, process_time() - middle


def memory(path: Path, torch: Schemas) -> tuple[float, float]:
    """Return the MiB that are held at most while reading, and while rendering, which has the policy in memory."""
    tracemalloc.start()
    found = read_policy(path, path.name, torch)
    reading = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    render(found)
    rendering = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return reading / 2**20, rendering / 2**20


def main() -> None:
    """Measure every size; print a table of the costs and one of the costs of an op."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="rounds of which the fastest counts (default: 2)")
    rounds = parser.parse_args().rounds
    if rounds < 1:
        parser.error(f"--rounds {rounds}: at least 1")

    costs = []
    with TemporaryDirectory() as folder, tqdm(total=sum(SIZES) * (rounds + 1), unit="op", leave=False) as progress:
        for ops in SIZES:
            path = Path(folder) / "policy.yaml"
            path.write_text(policy(ops), encoding="utf-8")
            timed = []
            for _ in range(rounds):
                timed.append(seconds(path, schemas(ops)))
                progress.update(ops)
            read, rendered = map(min, zip(*timed, strict=True))
            costs.append(Cost(ops, read, rendered, *memory(path, schemas(ops))))
            progress.update(ops)

    print(f"policies of {DEVICES} devices, every op on each; in brackets what one op costs")
    print(f"{'ops':>6}{'read':>22}{'render':>22}{'memory, read':>24}{'memory, render':>24}")
    for cost in costs:
        read, rendered, read_memory, render_memory = cost.per_op
        times = f"{cost.read:9.2f} s ({read:5.3f} ms){cost.render:9.2f} s ({rendered:5.3f} ms)"
        held = f"{cost.read_memory:8.1f} MiB ({read_memory:4.1f} KiB)"
        print(f"{cost.ops:6}{times}{held}{cost.render_memory:8.1f} MiB ({render_memory:4.1f} KiB)")
    ratios = [last / first for first, last in zip(costs[0].per_op, costs[-1].per_op, strict=True)]
    print(f"an op at {SIZES[-1]} by an op at {SIZES[0]}; 1 is linear, {SIZES[-1] // SIZES[0]} quadratic:", end=" ")
    print("read {:.2f}, render {:.2f}, memory {:.2f} and {:.2f}".format(*ratios))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
