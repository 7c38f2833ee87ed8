"""The files of rules that tune made, in examples/tuned, are read; examples/language_model.py trains with one."""

from pathlib import Path

import pytest
from polycast.debug.tuning.tuned import facts_of
from polycast.policy.plan import Plan

from tests.support.snippets import ROOT

FOLDER = ROOT / "examples" / "tuned"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_of_rules_has_its_evidence(path: Path) -> None:
    plan, facts = Plan.load(path), facts_of(path)
    policies = [plan.ops, *(policy for _, _, policy in plan.by_module())]
    # Float32 as a result has all its rules, also those of ops that nobody called.
    notes = ["error=" in rule.note for policy in policies for rule in policy.by_overload()]
    assert any(notes) if facts["result"] == "float32" else all(notes)
    assert (facts["result"] == "built-in") == (not plan)
    assert len(facts["seeds"]) == 5
