"""The category of each op on a device, and who says it, as a table."""

from typing import NamedTuple

from polycast._text_table import lines_of
from polycast.policy.operators import shown


class Resolved(NamedTuple):
    """The category of an overload on a device, and its source."""

    op: str
    overload: str
    category: str
    source: str


class Listing(tuple[Resolved, ...]):
    """Rows that print as a table."""

    def __str__(self) -> str:
        cells = [(shown(row.op, row.overload), row.category, row.source) for row in self]
        return "\n".join(lines_of([("op", "category", "from"), *cells]))
