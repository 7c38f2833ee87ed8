"""The sums of a program's calls by op."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from polycast._text_table import lines_of
from polycast.debug.calls import Call


class OpTotal(NamedTuple):
    """The calls of an op under one rule. Bytes are those that its casts read and write."""

    op: str
    rule: str
    calls: int
    casts: int
    reused: int
    bytes: int


class OpTotals(tuple[OpTotal, ...]):
    """Rows that print as a table."""

    def __str__(self) -> str:
        """Return the table."""
        head = ("op", "rule", "calls", "casts", "reused", "bytes cast")
        rows = [(row.op, row.rule, *map(str, row[2:5]), bytes_text(row.bytes)) for row in self]
        return "\n".join(lines_of([head, *rows]))


def by_op(calls: Iterable[Call]) -> OpTotals:
    """Return the calls of each op under each rule, the most bytes first, then the most calls."""
    groups: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in calls:
        groups[call.site.op, call.rule].append(call)
    rows = [OpTotal(op, rule, len(group), *_totals(group)) for (op, rule), group in groups.items()]
    return OpTotals(sorted(rows, key=lambda row: (-row.bytes, -row.calls, row.op)))


def _totals(calls: Iterable[Call]) -> tuple[int, int, int]:
    """Return the numbers of casts that were made and that were reused, and the bytes."""
    casts = [cast for call in calls for cast in call.casts]
    reused = sum(cast.reused for cast in casts)
    return len(casts) - reused, reused, sum(cast.bytes for cast in casts)


def bytes_text(count: float) -> str:
    """Return a number of bytes in its largest unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
