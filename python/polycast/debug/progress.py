"""Progress of what takes minutes."""

import contextlib
import sys
from time import perf_counter
from types import TracebackType
from typing import Any

_EVERY = 10.0  # seconds between two plain lines


class Progress:
    """Shows on a terminal how many runs are done: by tqdm if it is there, else by lines.

    Elsewhere there are the same lines, and what it is told to say. All goes to the standard error.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self.done = 0
        self._shown = perf_counter()
        self._bar: Any = None
        self._shows = sys.stderr is not None and sys.stderr.isatty()
        with contextlib.suppress(ImportError):
            from tqdm import tqdm

            if self._shows:
                self._bar = tqdm(desc=title, unit="run", leave=False, file=sys.stderr, dynamic_ncols=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self) -> None:
        """Count one that is done."""
        self.done += 1
        if self._bar is not None:
            self._bar.update()
        elif perf_counter() - self._shown > _EVERY:
            self._shown = perf_counter()
            self._print(f"{self._title}: {self.done} runs")

    def say(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        else:
            self._print(line)

    def _print(self, line: str) -> None:
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)
