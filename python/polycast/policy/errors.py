"""Problems of rules, and the error that lists them."""

from collections.abc import Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """One problem of rules, with its remedy."""

    file: str
    """The policy file; "" for a dict."""
    path: str
    """The keys that lead to the value, joined by dots, or a line of the file."""
    what: str
    remedy: str

    def __str__(self) -> str:
        """Return the problem as one line, in which characters that cannot be printed are escaped."""
        place = ": ".join(filter(None, (self.file, self.path)))
        line = f"{place}: {self.what}; {self.remedy}"
        return "".join(character if character.isprintable() else repr(character)[1:-1] for character in line)


class PolicyError(ValueError):
    """An error that lists the problems of rules."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(dict.fromkeys(problems))
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))
