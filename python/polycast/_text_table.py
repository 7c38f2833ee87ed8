"""Tables as lines of text."""

from collections.abc import Sequence


def lines_of(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table. Each column is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
