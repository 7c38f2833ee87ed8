"""Prints the table: `python -m tests.slow.ecosystem [WORD...]`, of the cells whose names hold all the words."""

import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tqdm import tqdm

from tests.slow.ecosystem import trainers
from tests.slow.ecosystem.cells import CELLS, PROCESSES, Cell, outcome

HEADER = "| package | recipe | works | difference | how, or why not |\n|---|---|---|---|---|"


def main(words: list[str]) -> int:
    """Run the cells, print a row for each and the counts; return whether there is one that does not work."""
    PROCESSES.set_forkserver_preload([trainers.__name__, "torch._dynamo"])  # the first step imports the latter
    cells = [cell for cell in CELLS if all(word in str(cell) for word in words)]
    bar = tqdm(total=len(cells), desc="cells", leave=False)

    def row(cell: Cell) -> str:
        verdict, difference, why = outcome(cell)
        verdicts[verdict] += 1
        bar.set_postfix_str(str(cell), refresh=False)
        bar.update()
        return f"| {cell.package} | {cell.recipe.name} | {verdict} | {difference:.0e} | {why} |"

    verdicts: Counter[str] = Counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(row, cells))
    bar.close()
    print(HEADER, *rows, "", sep="\n")
    print(f"{len(cells)} cells: " + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    return int(verdicts["no"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
