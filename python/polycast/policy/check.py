"""Checks files of rules, for the torch that runs and for recorded releases that are not installed."""

from collections.abc import Sequence
from pathlib import Path

from polycast._grammar.errors import Problem
from polycast.policy.reader import PolicyReader
from polycast.policy.releases import find


def check(paths: Sequence[str], releases: Sequence[str] = ()) -> list[Problem]:
    """Return the problems of files of rules, each with its place and remedy; none if every torch here can use them.

    Args:
        paths: YAML files of rules.
        releases: Torch releases to check the files for, beside the torch that runs: "2.12" or "torch-2.12".

    Raises:
        PolicyError: A release is not recorded.

    Example:
        >>> from polycast.policy.check import check
        >>> print(*check(["no.yaml"], ["2.12"]))
        no.yaml:1:1: error: cannot be read: no such file or directory; name a readable file
    """
    from polycast._grammar.files import load  # needs PyYAML

    for name in releases:
        find(name if name.startswith("torch-") else f"torch-{name}")
    problems: list[Problem] = []
    for path in paths:
        root = load(Path(path), path, problems)
        if root is not None:
            PolicyReader(problems).policy(root)
    return sorted(set(problems))
