"""A summary of recorded calls, by op."""

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
        head = ("op", "rule", "calls", "casts", "reused", "bytes cast")
        return "\n".join(lines_of([head, *((*map(str, row[:5]), bytes_text(row.bytes)) for row in self)]))


def by_op(calls: Iterable[Call]) -> OpTotals:
    """Return the calls of each op under each rule, the most bytes first, then the most calls."""
    groups: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in calls:
        groups[call.op, call.rule].append(call)
    rows = []
    for (op, rule), group in groups.items():
        casts = [cast for call in group for cast in call.casts]
        reused = sum(cast.reused for cast in casts)
        rows.append(OpTotal(op, rule, len(group), len(casts) - reused, reused, sum(cast.bytes for cast in casts)))
    return OpTotals(sorted(rows, key=lambda row: (-row.bytes, -row.calls, row.op)))


def bytes_text(count: float) -> str:
    """Return a number of bytes in its largest unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
