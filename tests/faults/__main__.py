"""Plant faults, run the tests against each, and write a table: the fault, the test that catches it, seconds.

    python -m tests.faults                         # all, into build/faults/table.tsv; goes on where it was stopped
    python -m tests.faults scaler                  # those whose names or files contain the word
    python -m tests.faults --compare before.tsv    # names the faults that were caught before and are not now
    python -m tests.faults --record                # runs the suite once more, to see which tests execute which lines

It needs coverage.py, and an hour or two on two cores. A fault that no test catches within the limit is either one that
changes nothing, or one that a test is missing for.
"""

import argparse
import csv
import multiprocessing
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tqdm import tqdm

from tests.faults.planted import ROOT, Fault, history, mutants
from tests.faults.runner import COMPILED, Outcome, begin, make_copy, run
from tests.faults.selection import record

FOLDER = ROOT / "build" / "faults"
COLUMNS = ("fault", "file", "line", "caught by", "seconds", "tests", "shows")


def read(path: Path) -> dict[str, dict[str, str]]:
    """Return the rows of a table by the names of their faults."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["fault"]: row for row in csv.DictReader(file, delimiter="\t")}


def measured(faults: list[Fault], jobs: int, limit: float) -> Iterator[Outcome]:
    """Yield what becomes of each fault, from as many processes as there are jobs."""
    context = multiprocessing.get_context("spawn")
    numbers = context.Queue()
    for number in range(jobs):
        numbers.put(number)
    # Compiled ones come last: a build leaves objects for the next one.
    ordered = sorted(faults, key=lambda fault: fault.file.startswith(COMPILED))
    with ProcessPoolExecutor(jobs, context, begin, (numbers, FOLDER, limit)) as pool:
        for done in as_completed([pool.submit(run, fault) for fault in ordered]):
            yield done.result()


def report(table: dict[str, dict[str, str]], before: dict[str, dict[str, str]]) -> int:
    """Print how many faults are caught, and which are not, or no longer."""
    caught = {name for name, row in table.items() if row["caught by"]}
    print(f"{len(caught)} of {len(table)} faults caught")
    for name, row in table.items():
        if name not in caught:
            print(f"  not caught: {name}: {row['shows']}")
    lost = [name for name, row in before.items() if row["caught by"] and name in table and name not in caught]
    if before:
        print(f"{len(lost)} were caught before and are not now: {', '.join(lost) or 'none'}")
    return 1 if lost else 0


def main() -> int:
    """Measure what the table lacks, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="measure the faults whose names or files contain one of these")
    parser.add_argument("--table", type=Path, default=FOLDER / "table.tsv", help="where the results go")
    parser.add_argument("--compare", type=Path, help="an earlier table, whose caught faults alone are measured")
    parser.add_argument("--record", action="store_true", help="run the suite first, even if that was done before")
    parser.add_argument("--jobs", type=int, default=2, help="how many faults at a time (default: 2)")
    parser.add_argument("--limit", type=float, default=240, help="seconds for the tests of a fault (default: 240)")
    options = parser.parse_args()
    recording = FOLDER / "recording"
    if options.record or not (recording / "durations").exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
        make_copy(FOLDER / "copy-0")
        record(FOLDER / "copy-0", recording, options.jobs)
    before, table = read(options.compare) if options.compare else {}, read(options.table)
    faults = [fault for fault in [*history(), *mutants()] if fault.name not in table]
    if options.words:
        faults = [fault for fault in faults if any(word in f"{fault.name} {fault.file}" for word in options.words)]
    if before:
        faults = [fault for fault in faults if before.get(fault.name, {"caught by": "new"})["caught by"]]
    is_new = not options.table.exists()
    with options.table.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        results = measured(faults, options.jobs, options.limit)
        for fault, caught_by, seconds, tests in tqdm(results, total=len(faults), unit="fault", disable=None):
            row = (fault.name, fault.file, fault.line, caught_by, f"{seconds:.1f}", tests, fault.shows)
            writer.writerow(row)
            file.flush()
    return report(read(options.table), before)


if __name__ == "__main__":
    sys.exit(main())
