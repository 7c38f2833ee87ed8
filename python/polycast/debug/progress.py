"""Progress of what takes minutes, with the time that remains."""

import contextlib
import sys
from time import perf_counter
from types import TracebackType
from typing import Any

_EVERY = 10.0  # seconds between two plain lines


class Progress:
    """Shows on a terminal how many runs are done and how long the rest takes: by tqdm if it is there, else by lines.

    Elsewhere there are the same lines, and what it is told to say. All goes to the standard error.
    """

    def __init__(self, title: str, unit: str = "run", total: int | None = None) -> None:
        self._title, self._unit, self.total = title, unit, total
        self.done = 0
        self._shown = self._start = perf_counter()
        self._bar: Any = None
        self._shows = sys.stderr is not None and sys.stderr.isatty()
        with contextlib.suppress(ImportError):
            from tqdm import tqdm

            if self._shows:
                self._bar = tqdm(desc=title, unit=unit, total=total, leave=False, file=sys.stderr, dynamic_ncols=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()

    def expect(self, total: int) -> None:
        """Say how many there are, as far as is known now."""
        self.total = total
        if self._bar is not None:
            self._bar.total = total
            self._bar.refresh()

    def advance(self) -> None:
        """Count one that is done."""
        self.done += 1
        if self._bar is not None:
            self._bar.update()
        elif perf_counter() - self._shown > _EVERY:
            self._shown = perf_counter()
            left = ""
            if self.total is not None:
                seconds = (self._shown - self._start) / self.done * max(0, self.total - self.done)
                left = f" of about {self.total}, {seconds:.0f} s left"
            self._print(f"{self._title}: {self.done} {self._unit}s{left}")

    def say(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        else:
            self._print(line)

    def _print(self, line: str) -> None:
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)
