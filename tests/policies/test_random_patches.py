"""Random rules come to rows that fit, or to problems with places; random_patches.py checks many more."""

from pathlib import Path

from tools.random_patches import check_patches


def test_random_rules_are_valid_or_have_proper_problems(tmp_path: Path) -> None:
    verdicts = check_patches(tmp_path, range(60))
    assert verdicts.keys() == {(form, valid) for form in ("dict", "file") for valid in (True, False)}
