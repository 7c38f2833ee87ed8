"""The errors of a run's ops, as a table."""

import math

from polycast._text_table import lines_of
from polycast.debug.calls import LOWER, Site, text
from polycast.debug.measure import Error


class Comparison(tuple[Error, ...]):
    """The errors of a run's ops, in the order of the calls; it prints as the worst of them."""

    missing: int
    """How many calls of one run the other does not have."""
    redrawn: list[Site]
    """Calls whose kernels drew other random numbers in the reference run: errors below them come from these, too."""

    def worst(self) -> list[Error]:
        """Return the errors that have a counterpart, those that grow most first: `so_far` beyond what was given.

        What is not finite is the worst.
        """
        known = [(row.so_far - row.before, row) for row in self if row.so_far is not None]
        known.sort(key=lambda pair: math.inf if math.isnan(pair[0]) else pair[0], reverse=True)
        return [row for _, row in known]

    @property
    def first_non_finite(self) -> Error | None:
        """The first call whose result is not finite where the reference's is."""
        return next((row for row in self if row.so_far is not None and not math.isfinite(row.so_far)), None)

    def table(self, count: int = 20) -> str:
        """Return a line for each of the worst errors."""
        head = ("phase", "module", "op", "call", "dtype", "local", "so far", "given")
        return "\n".join(lines_of([head, *(_cells(row) for row in self.worst()[:count])]))

    def __str__(self) -> str:
        """Return where errors grow, the worst ten, and the first that is not finite."""
        lines = [f"{len(self)} calls, {self.missing} without a counterpart; errors relative to the result"]
        if not any(dtype in LOWER for row in self for dtype in row.dtypes):
            lines += ["no call returned float16 or bfloat16: does the program open its region itself?"]
        if self.redrawn:
            count = f", and {len(self.redrawn) - 1} more" if len(self.redrawn) > 1 else ""
            lines += [
                f"the reference may have drawn other random numbers, whose errors are below: {self.redrawn[0]}{count}"
            ]
        lines += ["", "where errors grow, next to what was given:", self.table(count=10)]
        if (first := self.first_non_finite) is not None:
            lines += ["", f"the first that is not finite: {first.site}"]
        return "\n".join(lines)


def _cells(row: Error) -> tuple[str, ...]:
    dtypes = ", ".join(dict.fromkeys(map(text, row.dtypes)))
    numbers = ("" if size is None else f"{size:.2g}" for size in (row.local, row.so_far, row.before))
    return (row.site.phase, row.site.module, row.site.op, str(row.site.n), dtypes, *numbers)
