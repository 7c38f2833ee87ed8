"""Counts, in the last lines of a test run, what held."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Tally:
    """Counts what holds among what was compared, and says so at the end of the run."""

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

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for group, compared in self.compared.items():
            terminalreporter.write_line(f"{self.title}, {group}: {self.held[group]} of {compared}")
