"""The casts of a recorded release as rows over the base, whatever torch runs."""

from collections.abc import Iterator

from polycast._compiled import DEVICES, DEVICES_LIKE, ROWS
from polycast.policy import operators
from polycast.policy.operators import ATEN, Target
from polycast.policy.rows import VALUES, PatchRow, make_row
from polycast_grammar.categories import UNLISTED, Category
from polycast_grammar.history import ABSENT, Record, name_of


def rows_of(record: Record) -> Iterator[PatchRow]:
    """Yield a row where the base and a release differ.

    The base's row stays where the release has no such overload or keeps a kernel that is written by hand, and on a
    device that the release has no record of, unless the base treats it as another that it is like: it follows then.
    """
    base = {(row.op, row.overload, row.device): row.category for row in ROWS}
    listed = sorted({(row.op, row.overload) for row in ROWS} | record.overloads())
    source = f"history/{record.name}.yaml"
    for op, overload in listed:
        if overload not in operators.signatures(ATEN + op):
            continue  # the torch that runs has none
        here = {column: base.get((op, overload, column), UNLISTED) for column in DEVICES}
        wanted = {column: _wanted(record, op, overload, column, here) for column in DEVICES}
        families = {_root(column) for column in DEVICES if wanted[column] != here[column]}
        for column in DEVICES:
            if _root(column) in families and _can(op, overload, column, wanted[column]):
                yield make_row(
                    ATEN + op, overload, column, wanted[column], source, record.reasons.get(name_of(op, overload), "")
                )


def _wanted(record: Record, op: str, overload: str, column: str, here: dict[str, str]) -> str:
    """Return what a release gives an overload on a column, or what the base does."""
    device: str | None = column
    while device is not None and device not in record.devices:
        device = DEVICES_LIKE[device]
    if device is None or (here[device] != here[column] and device != column):
        return here[column]
    category = record.category(op, overload, device)
    return here[column] if category in (ABSENT, Category.STOCK.value) else category


def _root(column: str) -> str:
    """Return the column that this one is like in the end: a rule for it holds for this one unless it has its own."""
    like = DEVICES_LIKE[column]
    return column if like is None else _root(like)


def _can(op: str, overload: str, column: str, value: str) -> bool:
    """Return whether our kernels can do it; what stands in the way is there in no release that was recorded."""
    target = Target(ATEN + op, overload)
    if value not in VALUES:
        return False
    return operators.obstacle(target, operators.signatures(target.name)[overload], VALUES[value][0], column) is None
