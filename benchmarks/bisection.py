"""Whether bisect finds planted culprits, and in how many runs: twenty models in this process, some also as commands.

Beside them stand a search that is killed and goes on from its log, and a "good" that is bad. A run is one call of the
check, or one process. The number of rules is that of the switches: ops that differ in "good" and "bad", in each module.

    python -m benchmarks.bisection [--picture bisection.png]
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from math import log2
from pathlib import Path
from time import perf_counter, sleep
from typing import NamedTuple

import polycast
import torch

from tests.support.networks.planted import PLANTED, Planted
from tests.support.progress import progress

COMMANDS = ("mlp", "sum_of_errors")  # a run takes the seconds that importing torch takes
DRAWS = 5
HEAD = ("model", "kind", "found / planted", "rules", "log2", "runs", "repeat", "seconds")


class Found(NamedTuple):
    """What a search found."""

    name: str
    kind: str
    found: int
    planted: int
    rules: int
    runs: int
    repeat: int
    seconds: float

    @property
    def is_found(self) -> bool:
        """Whether it is what was planted."""
        return self.found == self.planted

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the row."""
        numbers = (f"{log2(self.rules):.1f}", f"{self.runs}", f"{self.repeat}", f"{self.seconds:.1f}")
        return (self.name, self.kind, f"{self.found} / {self.planted}", f"{self.rules}", *numbers)


def kind(planted: Planted) -> str:
    """Return what is planted, in words."""
    if planted.fails < 1:
        return f"fails {planted.fails:.0%} of runs"
    if len(planted.culprits) > 1:
        return "two, each by itself"
    return "pair" if len(planted.culprits[0]) > 1 else "one rule"


def in_process(planted: Planted, seed: int = 0) -> Found:
    """Search by the function."""
    start, repeat = perf_counter(), planted.repeat
    model, check = planted.make(seed)
    found = polycast.debug.bisect(check, bad=dict(planted.bad) or "built-in", repeat=repeat, model=model)
    took = perf_counter() - start
    sizes = len(planted.culprits), found.switches, found.runs, repeat
    return Found(planted.name, kind(planted), planted.named(found), *sizes, took)


def command(name: str, folder: Path) -> list[str]:
    """Return the search for a planted model by the command."""
    planted = PLANTED[name]
    files = ["--output", str(folder / f"{name}.yaml"), "--log", str(folder / f"{name}.jsonl")]
    program = [sys.executable, "-m", "tests.support.networks", name]
    return [sys.executable, "-m", "polycast", "bisect", "--repeat", str(planted.repeat), *files, "--", *program]


def as_command(name: str, folder: Path) -> tuple[str, ...]:
    """Search by the command; return whether the file of rules says the culprits, and the runs."""
    start = perf_counter()
    done = subprocess.run(command(name, folder), capture_output=True, text=True)
    runs = len((folder / f"{name}.jsonl").read_text().splitlines()) - 1
    found = mended(PLANTED[name], folder / f"{name}.yaml") and done.returncode == 0
    return name, "found" if found else "NOT FOUND", f"{runs} runs", f"{perf_counter() - start:.0f} s"


def mended(planted: Planted, path: Path) -> bool:
    """Return whether a file of rules names the planted culprits, and the check is good under it."""
    text = path.read_text() if path.exists() else ""
    _, check = planted.make(0)
    with polycast.use(str(path)):
        good = all(check() for _ in range(planted.repeat))
    return good and all(op in text for rules in planted.culprits for op, _ in rules)


def killed_and_resumed(name: str, folder: Path, runs: int) -> str:
    """Kill a search after some runs, let it go on, and return what the two took together."""
    start, path = perf_counter(), folder / f"{name}.jsonl"
    search = subprocess.Popen(
        command(name, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while search.poll() is None and (not path.exists() or len(path.read_text().splitlines()) <= runs):
        sleep(0.05)
    os.killpg(search.pid, signal.SIGKILL)
    search.wait()
    before = len(path.read_text().splitlines()) - 1
    output = folder / f"{name}.yaml"
    again = [sys.executable, "-m", "polycast", "bisect", "--resume", str(path), "--output", str(output)]
    done = subprocess.run(again, capture_output=True, text=True)
    after = len(path.read_text().splitlines()) - 1
    found = "found" if done.returncode == 0 and mended(PLANTED[name], output) else f"NOT FOUND: {done.stderr[-300:]}"
    return f"{name}: killed after {before} runs, {found} after {after - before} more, {perf_counter() - start:.0f} s"


def bad_good() -> str:
    """Return what bisect says of a "good" that is bad."""
    try:
        polycast.debug.bisect(PLANTED["mlp"].make(0)[1], good={"linear": "bf16"})
    except ValueError as error:
        return str(error)
    return "NOTHING"


def table(rows: list[tuple[str, ...]]) -> str:
    """Return the rows as aligned lines."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    pairs = (zip(row, widths, strict=True) for row in rows)
    return "\n".join("  ".join(f"{cell:{width}}" for cell, width in row).rstrip() for row in pairs)


def draw(rows: list[Found], path: Path) -> None:
    """Draw the runs over the number of rules, beside log2."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    for name, marker in (("one rule", "o"), ("pair", "s"), ("two, each by itself", "^")):
        chosen = [row for row in rows if row.kind == name]
        axes.plot([row.rules for row in chosen], [row.runs for row in chosen], marker, label=name)
    several = [row for row in rows if row.repeat > 1]
    axes.plot(
        [row.rules for row in several], [row.runs / row.repeat for row in several], "x", label="flaky: runs / repeat"
    )
    most = max(row.rules for row in rows)
    axes.plot(range(1, most + 1), [log2(count) for count in range(1, most + 1)], label="log2", color="black")
    axes.set(xlabel="rules that differ", ylabel="runs", title="Runs until bisect has found and proved the culprits")
    axes.legend()
    figure.savefig(path)


def main() -> None:
    """Read the command line, search, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path, metavar="PATH", help="where to save a picture of the runs")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the ops are tiny
    start = perf_counter()
    rows = [in_process(planted) for planted in progress(PLANTED.values(), "in this process", len(PLANTED))]
    print(table([HEAD, *(row.cells for row in rows)]))
    print(f"found in {sum(row.is_found for row in rows)} of {len(rows)} models")
    flaky = [planted for planted in PLANTED.values() if planted.fails < 1]
    again = [in_process(planted, draw) for planted in flaky for draw in range(1, DRAWS + 1)]
    print(
        f"those that fail sometimes, with other draws: found in {sum(row.is_found for row in again)} of {len(again)}\n"
    )
    if options.picture is not None:
        draw(rows, options.picture)
    with tempfile.TemporaryDirectory() as folder:
        print("as a command, a process for each run:")
        print(table([as_command(name, Path(folder)) for name in progress(COMMANDS, "as commands")]))
    with tempfile.TemporaryDirectory() as folder:
        print(f"killed, then resumed:\n{killed_and_resumed('mlp', Path(folder), runs=3)}")
    print(f'a "good" that is bad:\n{bad_good()}')
    print(f"\n{(perf_counter() - start) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
