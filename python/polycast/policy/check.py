"""Checks files of rules, for the torch that runs and for recorded releases that are not installed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from polycast._grammar.errors import Problem
from polycast._grammar.nodes import Node
from polycast._grammar.versions import Version, VersionRange
from polycast.policy import operators
from polycast.policy.plan_reader import PlanReader
from polycast.policy.reader import LACKS, RELEASE
from polycast.policy.releases import find, releases
from polycast.policy.schemas import signatures_in


def check(paths: Sequence[str], names: Sequence[str] = ()) -> list[Problem]:
    """Return the problems of files of rules, each with its place and remedy; none if each torch here can use them.

    Args:
        paths: YAML files of rules.
        names: Torch releases to check the files for, beside the torch that runs: "2.12" or "torch-2.12".

    Raises:
        ValueError: A release is not recorded.

    Example:
        >>> from polycast.policy.check import check
        >>> print(*check(["no.yaml"], ["2.12"]))
        no.yaml:1:1: error: cannot be read: no such file or directory; name a readable file
    """
    from polycast._grammar.files import load  # needs PyYAML

    asked = {find(name).number for name in names}
    found: list[Problem] = []
    for path in paths:
        problems: list[Problem] = []
        root = load(Path(path), path, problems)
        found += problems if root is None else [*problems, *_problems(root, asked)]
    return sorted(set(found))


def _problems(root: Node, asked: set[Version]) -> list[Problem]:
    """Return the problems of a file, each with the releases that have it, unless all have."""
    wanted = sorted({RELEASE, *asked})
    held = {number: _problems_in(root, number) for number in {*wanted, *(one.number for one in releases().values())}}
    found = dict.fromkeys(problem for number in wanted for problem in held[number])
    return [_with_releases(problem, wanted, held) for problem in found]


def _problems_in(root: Node, release: Version) -> list[Problem]:
    problems: list[Problem] = []
    PlanReader(problems, release, operators.signatures if release == RELEASE else signatures_in(release)).plan(root)
    number = f"torch {release[0]}.{release[1]} {LACKS}"
    return [replace(problem, what=problem.what.replace(number, LACKS)) for problem in problems]


def _with_releases(problem: Problem, wanted: Iterable[Version], held: Mapping[Version, list[Problem]]) -> Problem:
    """Return a problem with the releases that have it, and a remedy with the range of those that do not."""
    wrong = [f"{major}.{minor}" for major, minor in wanted if problem in held[major, minor]]
    if problem.what.startswith(LACKS):  # the remedy names the range already
        return replace(problem, what=f"torch {', '.join(wrong)} {problem.what}")
    right = [number for number in sorted(held) if problem not in held[number]]
    if len(wrong) == len([*wanted]) or not right:
        return problem
    first = None if right[0] == min(held) else right[0]
    end = next((number for number in sorted(held) if number > right[-1]), None)
    remedy = f"{problem.remedy}, or keep the rule to others, as in {{as: fp32, torch: '{VersionRange(first, end)}'}}"
    return replace(problem, what=f"{problem.what}, in torch {', '.join(wrong)}", remedy=remedy)
