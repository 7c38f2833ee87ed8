"""Problems of rules: the key that has one, what is wrong, and the remedy."""

from collections.abc import Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """One thing that is wrong, and its remedy."""

    file: str
    """The file that has the rules; "" for a dict."""
    path: str
    """The keys that lead to the value, joined by dots."""
    what: str
    remedy: str

    def inside(self, file: str, key: str) -> "Problem":
        """Return the problem of rules that are a value in other rules."""
        return self._replace(file=file, path=f"{key}.{self.path}")

    def __str__(self) -> str:
        """Return the problem as one line. Characters that cannot be printed are escaped."""
        place = ": ".join(filter(None, (self.file, self.path)))
        line = f"{place}: {self.what}; {self.remedy}"
        return "".join(character if character.isprintable() else repr(character)[1:-1] for character in line)


class PolicyError(ValueError):
    """All problems of a policy, in the order of its keys."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(dict.fromkeys(problems))
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))
