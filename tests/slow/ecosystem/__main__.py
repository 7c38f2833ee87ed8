"""The program of the table: ``python -m tests.slow.ecosystem [WORD...]`` runs cells whose names contain all words."""

import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.slow.ecosystem import trainers
from tests.slow.ecosystem.cells import CELLS, PROCESSES, outcome


def main(words: list[str]) -> int:
    """Run the cells, print a row for each and the counts, and return 1 if any cell fails, otherwise 0."""
    PROCESSES.set_forkserver_preload([trainers.__name__, "torch._dynamo"])  # The first step imports `torch._dynamo`.
    cells = [cell for cell in CELLS if all(word in str(cell) for word in words)]
    verdicts: Counter[str] = Counter()
    print("| package | recipe | works | difference | how, or why not |\n|---|---|---|---|---|")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for cell, (verdict, difference, why) in zip(cells, pool.map(outcome, cells), strict=True):
            verdicts[verdict] += 1
            print(f"| {cell.package} | {cell.recipe.name} | {verdict} | {difference:.0e} | {why} |", flush=True)
    print(f"\n{len(cells)} cells: " + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    return int(verdicts["no"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
