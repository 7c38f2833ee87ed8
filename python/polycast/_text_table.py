"""Tables as lines of text that fit the terminal."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from unicodedata import combining, east_asian_width

GAP = 2


def lines_of(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table.

    Cells wrap between words. Columns whose words do not fit beside each other are printed below, beside the first
    column again. A word that does not fit even there is broken.
    """
    room = shutil.get_terminal_size(fallback=(sys.maxsize, 0)).columns  # without a terminal all fits
    columns = list(zip(*rows, strict=True))
    least = [max(width_of(word) for cell in column for word in cell.split() or [""]) for column in columns]
    parts = [[0]]
    for place in range(1, len(columns)):
        if len(parts[-1]) > 1 and sum(least[other] + GAP for other in parts[-1]) + least[place] > room:
            parts.append([0])
        parts[-1].append(place)
    found: list[str] = []
    for part in parts:
        widths = _widths([columns[place] for place in part], [least[place] for place in part], room)
        found += ["", *(line for row in rows for line in _lines([row[place] for place in part], widths))]
    return found[1:]


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(0 if combining(letter) else 1 + (east_asian_width(letter) in "WF") for letter in text)


def _widths(columns: list[tuple[str, ...]], least: list[int], room: int) -> list[int]:
    """Return the widths of the columns: the widest give way first, to their longest words if that is enough."""
    natural = [max(map(width_of, column)) for column in columns]
    spare = room - GAP * (len(columns) - 1)
    for floors in (least, [1] * len(columns)):
        limit = max(natural)
        while True:
            widths = [min(wide, max(limit, floor)) for wide, floor in zip(natural, floors, strict=True)]
            if sum(widths) <= spare:
                return widths
            if limit == 1:
                break
            limit -= 1
    return widths


def _lines(cells: list[str], widths: list[int]) -> Iterator[str]:
    wrapped = [wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for line in zip_longest(*wrapped, fillvalue=""):
        padded = (part + " " * (width - width_of(part)) for part, width in zip(line, widths, strict=True))
        yield (" " * GAP).join(padded).rstrip()


def wrap(text: str, width: int) -> list[str]:
    """Return the lines of a text, broken between words, and within those that are wider than a line."""
    if width_of(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        if lines[-1] and width_of(lines[-1]) + 1 + width_of(word) > width:
            lines.append("")
        elif lines[-1]:
            lines[-1] += " "
        for letter in word:
            if lines[-1] and width_of(lines[-1]) + width_of(letter) > width:
                lines.append("")
            lines[-1] += letter
    return lines
