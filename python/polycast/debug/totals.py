"""The sums of a program's calls, by op and altogether, and the casts that a rule would save."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from polycast._grammar.categories import Category
from polycast._text_table import lines_of
from polycast.debug.calls import BACKWARD, LOWER, Call, Cast, text

TO_FLOAT32 = {Category.FP32.value, "float32", Category.PROMOTE.value}


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


class Saving(NamedTuple):
    """Casts that were made, and that the code in `by` would save."""

    by: str
    casts: int
    bytes: int
    why: str


@dataclass(frozen=True)
class Summary:
    """The sums of a program's calls. Bytes are those that casts read and write."""

    calls: int
    ops: int
    modules: int
    ruled: int
    """Calls that took a rule: not those of unlisted ops, nor of those that take the dtype of their inputs."""
    backward: int
    """Calls that autograd made. Backward is better run after the region: its ops have the dtypes of the forward's."""
    casts: int
    reused: int
    bytes: int
    savings: tuple[Saving, ...]
    complete: bool
    """Whether all calls were recorded: not so where there were more than the limit of the trace."""

    def __str__(self) -> str:
        """Return a few lines."""
        if not self.calls:
            return (
                "autocasting met no call: no region was entered in this thread, or only regions of other devices, or "
                "the code was compiled, which a trace does not see (TORCH_COMPILE_DISABLE=1 runs it as it is written)"
            )
        lines = [
            f"{_count(self.calls, 'call')} of {_count(self.ops, 'op')} in {_count(self.modules, 'module')}; "
            f"{self.ruled} ({self.ruled / self.calls:.0%}) took a rule",
            f"{_count(self.casts, 'cast')}, {bytes_text(self.bytes)} read and written, {self.reused} more reused",
        ]
        if self.backward:
            lines.append(f"{self.backward} of the calls are of backward, which is better run after the region")
        if not self.complete:
            lines.append("later calls were not recorded, since the limit of the trace was reached")
        if self.savings:
            lines.append("casts that could be saved:")
        lines += [f"  {one.casts} ({bytes_text(one.bytes)}) by {one.by}: {one.why}" for one in self.savings]
        return "\n".join(lines)


def by_op(calls: Iterable[Call]) -> OpTotals:
    """Return the calls of each op under each rule, the most bytes first, then the most calls."""
    groups: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in calls:
        groups[call.site.op, call.rule].append(call)
    rows = [OpTotal(op, rule, len(group), *_totals(group)) for (op, rule), group in groups.items()]
    return OpTotals(sorted(rows, key=lambda row: (-row.bytes, -row.calls, row.op)))


def summarize(calls: Sequence[Call], frozen: Collection[str], *, complete: bool) -> Summary:
    """Return the sums of the calls; `frozen` are the names of weights that require no gradient."""
    return Summary(
        len(calls),
        len({call.site.op for call in calls}),
        len({call.site.module for call in calls}),
        sum(call.is_ruled for call in calls),
        sum(call.site.phase == BACKWARD for call in calls),
        *_totals(calls),
        tuple(sorted(_savings(calls, frozen), key=lambda saving: -saving.bytes)),
        complete,
    )


def _savings(calls: Iterable[Call], frozen: Collection[str]) -> Iterable[Saving]:
    made = [(call, cast) for call in calls for cast in call.casts if not cast.reused]
    up = sorted(((call.site.op, cast) for call, cast in made if _widens(call, cast)), key=lambda pair: pair[0])
    for op, group in groupby(up, key=lambda pair: pair[0]):
        casts = [cast for _, cast in group]
        dtypes = " and ".join(sorted({text(cast.given) for cast in casts}))
        yield Saving(
            f'polycast.Policy({{"{op}": "input_dtype"}})',
            len(casts),
            sum(cast.bytes for cast in casts),
            f"it would compute in {dtypes}, at that precision",
        )
    weights = [cast for _, cast in made if cast.weight in frozen]
    again = weights[len({(cast.weight, cast.to) for cast in weights}) :]
    if again:
        yield Saving(
            "polycast.cast_cache.keep(model)",
            len(again),
            sum(cast.bytes for cast in again),
            "weights that require no gradient are cast once",
        )


def _widens(call: Call, cast: Cast) -> bool:
    return call.rule in TO_FLOAT32 and cast.given in LOWER and len({*call.given}) == 1


def _totals(calls: Iterable[Call]) -> tuple[int, int, int]:
    """Return the numbers of casts that were made and that were reused, and the bytes."""
    casts = [cast for call in calls for cast in call.casts]
    reused = sum(cast.reused for cast in casts)
    return len(casts) - reused, reused, sum(cast.bytes for cast in casts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def bytes_text(count: float) -> str:
    """Return a number of bytes in its largest unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
