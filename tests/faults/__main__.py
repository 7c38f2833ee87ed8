"""A tool that injects faults, runs tests, and writes each fault, its result and its duration to a table.

    python -m tests.faults                         # all faults; resumes an interrupted run
    python -m tests.faults scaler                  # the faults whose names or files contain the word
    python -m tests.faults --compare before.tsv    # the faults that an earlier table lists as caught, and new ones

Each state of the source tree has a table, in a folder of `build/faults/`. For each table, the suite runs once to record
the lines that each test executes. For each fault, the tests that execute its line run. If there are none, or the file
is not Python, the tests of its area run. All faults take one to two hours on two cores. coverage.py is required.

The result is "caught" if a test or the build failed, and "survived" if no test failed. "crash" counts as caught: an
import of the tests failed, or their process died. "timeout" and "not run" count as neither. The exit status is 1 if a
fault that `--compare` lists as caught survives. It is also 1 if tests fail without a fault, or do not run.
"""

import argparse
import csv
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from tqdm import tqdm

from tests.faults.injected import ROOT, Fault, history, mutants
from tests.faults.runner import COMPILED, Outcome, begin, make_copy, run, state
from tests.faults.selection import Recording, record

FOLDER = ROOT / "build" / "faults"
COLUMNS = ("fault", "file", "line", "result", "by", "seconds", "tests", "shows")
Table = dict[str, dict[str, str]]


def read(path: Path) -> Table:
    """Return the rows of a table, by the names of their faults."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row["fault"]: row for row in csv.DictReader(file, delimiter="\t")}


def is_caught(row: dict[str, str]) -> bool:
    """Return whether the tests or the build caught the fault of a row."""
    return row["result"] in ("caught", "crash")


def measured(faults: list[Fault], recording: Path, jobs: int, limit: float) -> Iterator[tuple[Fault, Outcome]]:
    """Run the tests of each fault in ``jobs`` processes, and yield the fault with its outcome.

    Raises:
        SystemExit: If the tests of an area do not pass without a fault.
    """
    recorded = Recording(recording)
    tests = {fault: recorded.tests_of(fault, limit) for fault in faults}
    context = multiprocessing.get_context("spawn")
    numbers = context.Queue()
    for number in range(jobs):
        numbers.put(number)
    with ProcessPoolExecutor(jobs, context, begin, (numbers, FOLDER, limit)) as pool:
        areas = dict.fromkeys(chosen.tests for chosen in tests.values() if not chosen.are_recorded)
        for area, outcome in zip(areas, pool.map(partial(run, None), areas), strict=True):
            if outcome.result != "survived":
                text = f"without a fault, {' '.join(area)}: {outcome.result} {outcome.by}; fix these tests first"
                sys.exit(text + ", or raise --limit" * (outcome.result == "timeout"))
        # Faults in compiled files run last, so that each of their builds reuses the objects of the build before it.
        ordered = sorted(faults, key=lambda fault: fault.file.startswith(COMPILED))
        futures = {pool.submit(run, fault, tests[fault].tests): fault for fault in ordered}
        for done in as_completed(futures):
            yield futures[done], done.result()


def report(table: Table, before: Table) -> int:
    """Print the results except "caught" and the faults that only ``before`` lists as caught. Return the exit status."""
    print(f"{sum(map(is_caught, table.values()))} of {len(table)} faults caught")
    for name, row in table.items():
        if row["result"] != "caught":
            print(f"  {row['result']} {row['by']}: {name}: {row['shows']}")
    lost = [name for name, row in before.items() if is_caught(row) and table.get(name, row)["result"] == "survived"]
    if before:
        print(f"{len(lost)} were caught before and survive now: {', '.join(lost) or 'none'}")
    return 1 if lost or any(row["result"] == "not run" for row in table.values()) else 0


def main() -> int:
    """Measure the selected faults that the table lacks, print a report, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="measure the faults whose names or files contain one of these")
    parser.add_argument("--compare", type=Path, help="compare with this table, and omit its faults that are not caught")
    parser.add_argument("--jobs", type=int, default=2, help="measure this number of faults at once (default: 2)")
    limit = "select recorded tests up to this number of seconds; a run ends after three times as long (default: 240)"
    parser.add_argument("--limit", type=float, default=240, help=limit)
    options = parser.parse_args()
    folder = FOLDER / state()
    path, recording = folder / "table.tsv", folder / "recording"
    if options.compare and not options.compare.exists():
        parser.error(f"--compare: expected a table of an earlier run, got '{options.compare}'; check the path")
    if options.compare and path.exists() and options.compare.samefile(path):
        parser.error("--compare: expected a table of another source tree, got this tree's; pass an older table")
    before = read(options.compare) if options.compare else {}
    if not (recording / "durations").exists():
        make_copy(FOLDER / "copy-0")
        record(FOLDER / "copy-0", recording, options.jobs)
    if not path.exists():
        path.write_text("\t".join(COLUMNS) + "\n", encoding="utf-8")
    known = read(path) | {name: row for name, row in before.items() if not is_caught(row)}
    faults = [fault for fault in [*history(), *mutants()] if fault.name not in known]
    if options.words:
        faults = [fault for fault in faults if any(word in f"{fault.name} {fault.file}" for word in options.words)]
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        results = measured(faults, recording, options.jobs, options.limit)
        for fault, outcome in tqdm(results, total=len(faults), unit="fault", disable=None):
            result, by, seconds, tests = outcome
            writer.writerow((fault.name, fault.file, fault.line, result, by, f"{seconds:.1f}", tests, fault.shows))
            file.flush()
    print(path.relative_to(ROOT))
    return report(read(path), before)


if __name__ == "__main__":
    sys.exit(main())
