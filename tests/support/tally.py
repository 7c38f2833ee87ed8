"""Counts, in the last lines of a test run, what held."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LINES = "tallies"


class Tally:
    """Counts what holds among what was compared, and prints it at the end of the run."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.compared: Counter[str] = Counter()
        self.held: Counter[str] = Counter()

    @contextmanager
    def count(self, group: str, amount: int = 1) -> Iterator[None]:
        """Count what the body compares; it holds unless the body raises."""
        self.compared[group] += amount
        yield
        self.held[group] += amount

    def lines(self) -> list[str]:
        """Return the lines to print, one for each group."""
        return [f"{self.title}, {group}: {self.held[group]} of {count}" for group, count in self.compared.items()]

    def pytest_sessionfinish(self, session: Any) -> None:
        if hasattr(session.config, "workeroutput"):  # of a process of several, whose terminal nobody sees
            session.config.workeroutput.setdefault(LINES, []).extend(self.lines())

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in self.lines():
            terminalreporter.write_line(line)
