"""Damaged policies: each is still valid or has proper problems, and none takes long; mutations.py checks many more."""

from pathlib import Path

from tools.mutations import EVERYTHING, check, check_mutants


def test_the_policy_that_is_damaged_is_valid(tmp_path: Path) -> None:
    assert check(tmp_path, EVERYTHING.encode())


def test_a_mutant_is_valid_or_has_proper_problems(tmp_path: Path) -> None:
    verdicts, slowest = check_mutants(tmp_path, range(1000))
    assert verdicts.keys() == {True, False}
    assert slowest < 5  # seconds
