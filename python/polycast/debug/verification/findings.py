"""What was checked on a device, as data, as a table and as JSON."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from polycast._text_table import lines_of

KEPT, BROKEN, UNCHECKED = "kept", "broken", "not checked"
ALLOWED = 1.05
"""How many times the mean error of torch.optim's for-loop is allowed."""
BOUND = 3.0
"""How many times torch's time breaks the promise: less may be what else the machine does."""
PROMISES = {
    "rules": "a call of each op gives the bits that torch's own autocast kernel and casts by hand give, or half of "
    "their digits if the op does not repeat its bits",
    "steps": f"a skipped step changes nothing; the mean absolute error of the parameters against float64 is at most "
    f"{ALLOWED:g} times that of torch's for-loop",
    "reads": "iterations of a training read nothing from the device",
    "graphs": "a captured iteration, replayed, does what the iteration does",
    "timings": f"a step and many casts take at most {BOUND:g} times as long as torch's best, and kept casts as casts "
    "that are not kept; on a busy machine the times prove nothing",
}
"""The parts, and what is promised in each."""


class Check(NamedTuple):
    """One promise on one device, and what was found.

    Fields:
        part: "rules", "steps", "reads", "graphs" or "timings".
        name: What was checked: "softmax.int", "AdamW in float32".
        outcome: "kept", "broken" or "not checked".
        found: What was found, or why nothing could be checked.
        figures: The numbers of it.
    """

    part: str
    name: str
    outcome: str
    found: str
    figures: Mapping[str, float] = MappingProxyType({})


def attempted(part: str, name: str, check: Callable[[], Check]) -> Check:
    """Return a check, or what it raised: an error where nothing should raise breaks a promise."""
    try:
        return check()
    except Exception as error:
        return raised(part, name, error)


def raised(part: str, name: str, error: Exception) -> Check:
    """Return a broken check that tells an error."""
    return Check(part, name, BROKEN, f"it raises {type(error).__name__}: {first_line(error)}".rstrip(": "))


def first_line(error: Exception) -> str:
    """Return the first line of the text of an error, without the marks at its end."""
    return str(error).strip().partition("\n")[0].rstrip(".: ")


@dataclass
class Verification:
    """What :func:`verify` found on a device. It prints as a table for each part."""

    device_type: str
    facts: dict[str, str]
    """Versions, the device's name, and what else a report of a bug needs."""
    checks: list[Check] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    """The parts that ran, in order. Only the last can lack checks, if it is not complete."""
    complete: bool = False
    """Whether all that was asked for ran: Ctrl-C leaves the checks before it."""

    @property
    def broken(self) -> list[Check]:
        """The checks that found a promise broken."""
        return [check for check in self.checks if check.outcome == BROKEN]

    @property
    def not_run(self) -> list[str]:
        """The parts that did not begin."""
        return [part for part in PROMISES if part not in self.begun]

    def __str__(self) -> str:
        """Return the tables."""
        return "\n\n".join([self.heading(), *map(self.table, self.begun), self.verdict()])

    def heading(self) -> str:
        """Return the facts, as lines."""
        return "\n".join(lines_of([*self.facts.items()]))

    def table(self, part: str) -> str:
        """Return what a part promises and what was found."""
        checks = [check for check in self.checks if check.part == part]
        told = (
            _counts(checks) if part == "rules" else [("", check.name, check.outcome, check.found) for check in checks]
        )
        return "\n".join([*lines_of([(f"{part}: {PROMISES[part]}",)]), *_lines(told)])

    def verdict(self) -> str:
        """Return the last line: how many checks had which outcome, what is broken, and what did not run."""
        count = Counter(check.outcome for check in self.checks)
        counts = ", ".join(f"{count[outcome]} {outcome}" for outcome in (KEPT, BROKEN, UNCHECKED))
        ending = (
            "" if self.complete else f"interrupted{''.join(f' in {part}' for part in self.begun[-1:])}; until then: "
        )
        names = ", ".join(check.name for check in self.broken)
        broken = f"; broken on {self.device_type}: {names}" if names else ""
        return f"{ending}{counts}{broken}" + (f"; not run: {', '.join(self.not_run)}" if self.not_run else "")

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return all of it as JSON, and write it to a file where one is named: all of the file, or nothing."""
        checks = [{**check._asdict(), "figures": dict(check.figures)} for check in self.checks]
        told: dict[str, Any] = {"device_type": self.device_type, "facts": self.facts, "complete": self.complete}
        told |= {"begun": self.begun, "not_run": self.not_run, "checks": checks}
        document = json.dumps(told, indent=1) + "\n"
        if path is not None:
            path = Path(path)
            if path.exists() and not path.is_file():  # a pipe or a device
                path.write_text(document, encoding="utf-8")
                return document
            path = path.resolve()  # what a link names is written, not the link
            unfinished = path.with_name(f"{path.name}.{os.getpid()}")
            try:
                unfinished.write_text(document, encoding="utf-8")
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)
        return document


def _counts(checks: Sequence[Check]) -> Iterator[tuple[str, ...]]:
    """Yield how many rules keep their promise, those that do not, and those that were not checked, by reason."""
    count, reasons = Counter(check.outcome for check in checks), dict[str, list[str]]()
    for check in checks:
        if check.outcome == UNCHECKED:
            reasons.setdefault(check.found, []).append(check.name)
    yield "", f"{count[KEPT]} kept, {count[BROKEN]} broken, {count[UNCHECKED]} not checked"
    yield from (("", f"broken: {check.name}: {check.found}") for check in checks if check.outcome == BROKEN)
    for reason, names in reasons.items():
        yield "", f"not checked: {reason}"
        yield "", "", ", ".join(names)


def _lines(told: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table, of which neighbours with as many cells have their columns in common."""
    for _, rows in groupby(told, len):
        yield from lines_of([*rows])
