"""The errors of a run's ops, as tables and pictures."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from polycast._text_table import lines_of
from polycast.debug.calls import LOWER, Site, text
from polycast.debug.measure import Error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERS: dict[str, Callable[[Error], float | None]] = {
    "local": lambda row: row.local,
    "so_far": lambda row: row.so_far,
    "growth": lambda row: None if row.so_far is None else row.so_far - row.before,
}


class Comparison(tuple[Error, ...]):
    """The errors of a run's ops, in the order of the calls; it prints as the worst of them."""

    missing: int
    """How many calls of one run the other does not have."""
    redrawn: list[Site]
    """Calls whose kernels drew other random numbers in the reference run: errors below them come from these, too."""

    def worst(self, by: str = "local") -> list[Error]:
        """Return the errors, the worst first: by "local", by "so_far", or by "growth", how much worse than before.

        What is not finite is the worst.
        """
        if by not in ORDERS:
            raise ValueError(f"errors are sorted by {', '.join(ORDERS)}, not by {by!r:.60}")
        known = [(size, row) for row in self if (size := ORDERS[by](row)) is not None]
        known.sort(key=lambda pair: math.inf if math.isnan(pair[0]) else pair[0], reverse=True)
        return [row for _, row in known]

    @property
    def first_non_finite(self) -> Error | None:
        """The first call whose result is not finite where the reference's is."""
        return next((row for row in self if row.so_far is not None and not math.isfinite(row.so_far)), None)

    def table(self, by: str = "local", count: int = 20) -> str:
        """Return a line for each of the worst errors."""
        head = ("phase", "module", "op", "call", "dtype", "local", "so far", "given")
        return "\n".join(lines_of([head, *(_cells(row) for row in self.worst(by)[:count])]))

    def __str__(self) -> str:
        """Return where errors arise and where they grow, the worst five of each, and the first that is not finite."""
        lines = [f"{len(self)} calls, {self.missing} without a counterpart; errors relative to the result"]
        if not any(dtype in LOWER for row in self for dtype in row.dtypes):
            lines += ["no call returned float16 or bfloat16: does the program open its region itself?"]
        if self.redrawn:
            count = f", and {len(self.redrawn) - 1} more" if len(self.redrawn) > 1 else ""
            lines += [
                f"the reference may have drawn other random numbers, whose errors are below: {self.redrawn[0]}{count}"
            ]
        lines += ["", "where errors arise, by what the op itself does:", self.table(count=5)]
        lines += ["", "where errors grow, beside what was given:", self.table("growth", count=5)]
        if (first := self.first_non_finite) is not None:
            lines += ["", f"the first that is not finite: {first.site}"]
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Return a picture of the errors over the calls; needs matplotlib.

        Args:
            path: Where to save it, too.
        """
        from polycast.debug.picture import draw_errors

        file = None if path is None else Path(path)
        figure = draw_errors(self, self.first_non_finite, self.worst("growth"))
        if file is not None:
            figure.savefig(file)
        return figure


def _cells(row: Error) -> tuple[str, ...]:
    dtypes = ", ".join(dict.fromkeys(map(text, row.dtypes)))
    numbers = ("" if size is None else f"{size:.2g}" for size in (row.local, row.so_far, row.before))
    return (row.site.phase, row.site.module, row.site.op, str(row.site.n), dtypes, *numbers)
