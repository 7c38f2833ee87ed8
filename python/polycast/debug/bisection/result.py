"""What a search found."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import NamedTuple

from polycast._text_table import lines_of
from polycast.policy.policy import Policy


class Culprit(NamedTuple):
    """A rule that makes the program bad."""

    op: str
    module: str
    """The module that calls the op, by its name in the model: "encoder.0"; "" for the model itself, for what is
    outside of it, and if no model was given."""
    good: str
    """Its category in "good"."""
    bad: str
    """Its category in "bad"."""
    group: int
    """The rules of one group make the program bad only together."""


@dataclass(frozen=True)
class Bisection:
    """The rules that make a program bad. It prints as a table."""

    culprits: tuple[Culprit, ...]
    """The rules. Each group is minimal: without any one of its rules the program is good."""
    policy: Policy
    """The "bad" policy with the culprits outside of modules as in "good", with notes that say what was found."""
    modules: dict[str, Policy]
    """The rules of modules that go with it, for :func:`polycast.assign`."""
    runs: int
    """How often the program ran."""
    switches: int
    """How many rules of ops differ between "good" and "bad", counted in each module of the model."""
    proved: bool
    """Whether the last run, under these rules, was good."""

    def __str__(self) -> str:
        """Return the table, and what it took to find it."""
        groups: dict[int, list[str]] = {}
        for one in self.culprits:
            groups.setdefault(one.group, []).append(f"{one.op} in {one.module}" if one.module else one.op)
        rows: list[tuple[str, ...]] = [("op", "module", "good", "bad"), *(one[:4] for one in self.culprits)]
        if not any(one.module for one in self.culprits):
            rows = [(op, *categories) for op, _, *categories in rows]
        return "\n".join(
            [
                *lines_of(rows),
                "",
                *(f"{_listed(names)} fail only together." for names in groups.values() if len(names) > 1),
                f"{self.runs} runs for {self.switches} rules that differ, whose log2 is {log2(self.switches):.1f}.",
                f"With these rules as in good, the last run was {'good' if self.proved else 'not good'}.",
            ]
        )


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
