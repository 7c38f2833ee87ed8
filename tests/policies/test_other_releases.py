"""Rules for other releases of torch than the one that runs, as a file has them that outlives an upgrade."""

from typing import Any

import pytest
import torch
from polycast import Policy, PolicyError
from polycast.policy import operators

RELEASE = tuple(map(int, torch.__version__.split(".")[:2]))
# An op that the torch that runs does not have, and the releases that have it.
OP, RELEASES = ("linalg_matrix_sqrth", ">=2.14") if RELEASE < (2, 14) else ("cholesky", "<2.14")
ELSEWHERE = {"as": "fp32", "torch": "<2.9"}


@pytest.mark.parametrize(
    "rules",
    [
        {OP: {"as": "fp32", "torch": RELEASES}},
        {f"torch.{OP}.gone": ELSEWHERE},
        {"softmax.gone": ELSEWHERE},
        {"nobody::asked": {"cpu": ELSEWHERE, "cuda": [ELSEWHERE, {"as": "unlisted", "torch": ">=9.0"}]}},
    ],
)
def test_what_only_other_releases_have_is_not_looked_up(rules: dict[str, Any]) -> None:
    assert Policy({**rules, "softmax": "fp32"}) == Policy({"softmax": "fp32"})


def test_an_overload_of_another_release_leaves_those_of_this_one() -> None:
    gone = {**ELSEWHERE, "as": "float16", "overloads": ["gone"]}
    assert Policy({"softmax": [gone, "fp32"]}) == Policy({"softmax": "fp32"})
    with pytest.raises(PolicyError, match="unknown overload 'gone'"):
        Policy({"softmax": [{**gone, "torch": ">=2.9"}, "fp32"]})


def test_an_op_that_needs_a_range_has_one_in_the_error() -> None:
    for name in (OP, f"aten::{OP}", f"torch.{OP}"):
        with pytest.raises(PolicyError) as caught:
            Policy({name: "fp32"})
        assert str(caught.value) == (
            f"Policy: {name}: error: torch {RELEASE[0]}.{RELEASE[1]} has no '{OP}', which is there in torch {RELEASES}"
            f"; keep the rule to those, as in {{as: fp32, torch: '{RELEASES}'}}"
        )


def test_an_op_that_this_torch_lacks_is_no_other_op_of_the_same_last_name(monkeypatch: pytest.MonkeyPatch) -> None:
    known = operators.signatures
    monkeypatch.setattr(operators, "signatures", lambda name: {} if name == "cholesky" else known(name))
    assert operators.targets("cholesky") == operators.targets("torch.cholesky") == ()
    assert operators.targets("torch.linalg.cholesky") == (operators.Target("linalg_cholesky", None),)


def test_a_rule_for_another_release_is_still_read() -> None:
    with pytest.raises(PolicyError, match="unknown category 'fp23'"):
        Policy({OP: {"as": "fp23", "torch": RELEASES}})
