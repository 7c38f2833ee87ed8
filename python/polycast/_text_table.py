"""Tables as text."""

import shutil
import sys
from collections.abc import Sequence


def lines_of(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table; the columns that a terminal has no room for go below, beside the first one again."""
    width, _ = shutil.get_terminal_size(fallback=(sys.maxsize, 0))  # no terminal: no fold
    columns = [[cell.ljust(max(map(len, column))) for cell in column] for column in zip(*rows, strict=True)]
    first, *rest = columns
    parts: list[list[list[str]]] = [[first]]
    for column in rest:
        if len(parts[-1]) > 1 and sum(len(cells[0]) + 2 for cells in parts[-1]) + len(column[0]) > width:
            parts.append([first])
        parts[-1].append(column)
    folded = [["  ".join(line).rstrip() for line in zip(*part, strict=True)] for part in parts]
    return [line for part in folded for line in ("", *part)][1:]
