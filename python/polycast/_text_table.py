"""Tables as lines of text that fit the terminal."""

import shutil
import sys
import textwrap
from collections.abc import Sequence


def wrapped(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows with their last cells wrapped: a further row, empty but for its last cell, for each more line."""
    taken = sum(max(map(len, column)) + 2 for column in list(zip(*rows, strict=True))[:-1])
    room = max(_width() - taken, max(len(word) for row in rows for word in row[-1].split()))
    found: list[tuple[str, ...]] = []
    for *first, last in rows:
        one, *more = textwrap.wrap(last, room)
        found += [(*first, one), *((*[""] * len(first), part) for part in more)]
    return found


def lines_of(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table. Columns that do not fit are printed below, beside the first column again."""
    width = _width()
    first, *rest = (_padded(column) for column in zip(*rows, strict=True))
    parts: list[list[list[str]]] = [[first]]
    for column in rest:
        if len(parts[-1]) > 1 and sum(len(cells[0]) + 2 for cells in parts[-1]) + len(column[0]) > width:
            parts.append([first])
        parts[-1].append(column)
    folded = [["  ".join(line).rstrip() for line in zip(*part, strict=True)] for part in parts]
    return [line for part in folded for line in ("", *part)][1:]


def _padded(column: Sequence[str]) -> list[str]:
    longest = max(map(len, column))
    return [cell.ljust(longest) for cell in column]


def _width() -> int:
    return shutil.get_terminal_size(fallback=(sys.maxsize, 0)).columns  # without a terminal nothing is folded
