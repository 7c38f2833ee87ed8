"""Every problem that rules can have, by its text; bad_rules.txt is the table."""

from pathlib import Path

import polycast
import pytest
import torch
from polycast.policy.policy import PolicyError

import tests.policies.library  # noqa: F401


def _cases() -> dict[str, tuple[str, list[str], str]]:
    """Return the rules in Python, the lines of a file, and what is reported for each name in the table."""
    cases = {}
    blocks = Path(__file__).with_name("bad_rules.txt").read_text(encoding="utf-8").split("\n\n")
    for name, *lines in (block.splitlines() for block in blocks if block.startswith("# ")):
        file = [line[1:] for line in lines if line.startswith("|")]
        rules = [line for line in lines if line.startswith(("{", "("))]
        expected = lines[len(file) + len(rules) :]
        assert name not in cases and bool(file) + len(rules) == 1 and expected, name
        cases[name] = ("".join(rules), file, "\n".join(expected))
    return cases


CASES = _cases()


@pytest.mark.parametrize(("rules", "file", "expected"), CASES.values(), ids=[name.removeprefix("# ") for name in CASES])
def test_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: str, file: list[str], expected: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("\n".join(file), encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        polycast.Policy(eval(rules, {"torch": torch})) if rules else polycast.Policy.load("mine.yaml")
    assert str(caught.value) == expected
