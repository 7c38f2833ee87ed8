"""Tables as lines of text."""

from collections.abc import Sequence


def lines_of(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table, whose columns are as wide as their widest cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
