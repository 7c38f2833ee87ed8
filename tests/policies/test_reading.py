"""What people try on a policy: it reads as a dict, or an error says what to write."""

import copy
import json
import pickle

import polycast
import pytest
from polycast import Policy

MINE = Policy({"softmax": "fp32", "pow.Scalar": {"cuda": "half"}})
RULES = {"softmax": "fp32", "pow.Scalar": {"cuda": "float16"}}


def test_a_policy_reads_as_a_dict() -> None:
    assert len(MINE) == 2 and [*MINE] == [*RULES] == [*MINE.keys()]
    assert [*MINE.items()] == [*RULES.items()] and [*MINE.values()] == [*RULES.values()]
    assert {**MINE} == dict(MINE) == RULES == MINE.rules and json.loads(json.dumps(MINE.rules)) == RULES
    assert MINE["softmax"] == MINE["torch.softmax"] == MINE.get("F.softmax") == "fp32"
    assert "softmax" in MINE and "pow.Scalar" in MINE and "pow" not in MINE and "nonsense" not in MINE
    assert MINE.get("nonsense") is None and MINE.get("gelu", "none") == "none"


def test_a_policy_equals_a_dict_of_the_same_rules() -> None:
    assert MINE == RULES and RULES == MINE and Policy(MINE) == MINE
    assert MINE == {"torch.softmax": "float32", "pow.Scalar": {"cuda": "fp16"}}
    assert MINE != {"softmax": "fp32"} and MINE != {"sofmax": "fp32"} and MINE != {} and MINE != "fp32"
    assert copy.copy(MINE) == copy.deepcopy(MINE) == pickle.loads(pickle.dumps(MINE)) == MINE
    assert {MINE: 1}[Policy(RULES)] == 1


def test_a_policy_joins_with_all_that_stands_for_one() -> None:
    both = {"softmax": "bfloat16", "pow.Scalar": {"cuda": "float16"}}
    assert MINE | {"softmax": "bf16"} == both == MINE | Policy({"softmax": "bf16"})
    assert {"softmax": "bf16"} | MINE == MINE and MINE | None == MINE
    assert (MINE | "torch-2.11").category("rms_norm", "cuda") == "unlisted"


def test_the_category_of_an_op_is_asked_of_a_policy_over_the_built_in_one() -> None:
    assert MINE.category("pow.Scalar", "cuda") == "float16"
    assert MINE.category("softmax")["xla"] == "fp32" and MINE.category("mm", "cpu") == "lower_precision_fp"
    assert Policy({"mm": "unlisted"}).category("mm", "cpu") == "unlisted" == MINE.category("add", "cpu")
    assert MINE.diff(MINE) == "" and "stack" in MINE.diff("torch-2.11")


CANNOT = "a policy cannot change; join another, as in policy | {'gelu': 'fp32'}"
# what people try, and the error
WRONG = {
    "MINE['gelu']": "KeyError: \"the policy has no rule for 'gelu'; its rules are for softmax, pow.Scalar\"",
    "MINE['gleu']": "KeyError: \"unknown op 'gleu'; did you mean 'glu' or 'gelu'?\"",
    "MINE.__setitem__('gelu', 'fp32')": f"TypeError: {CANNOT}",
    "MINE.__delitem__('gelu')": f"TypeError: {CANNOT}",
    "MINE + MINE": "TypeError: policies are joined with |, as in policy | {'gelu': 'fp32'}",
    "MINE.update({'gelu': 'fp32'})": f"AttributeError: a policy has no 'update'; {CANNOT}",
    "MINE.lookup('gelu')": "AttributeError: ... 'lookup'; policy.category(op, device) is the category of an op",
    "MINE.to_dict()": "AttributeError: a policy has no 'to_dict'; policy.rules is a dict",
    "MINE.to_yaml()": "AttributeError: a policy has no 'to_yaml'; policy.save(path) writes a YAML file",
    "MINE.catgory('gelu')": "AttributeError: a policy has no 'catgory'; did you mean 'category'?",
    "Policy.from_file('mine.yaml')": "AttributeError: ... takes a dict, a file, a release, a category or a dtype",
    "Policy.default()": "AttributeError: a policy has no 'default'; polycast.policy.in_force() returns what holds here",
    "MINE.category('softmax', 'gpu')": "ValueError: ...; did you mean 'cuda'?",
    "polycast.policy.resolved(device='gpu')": "ValueError: ...; did you mean 'cuda'?",
    "polycast.policy.category('softmax', 'xpuu')": "ValueError: ...; did you mean 'xpu'?",
}


@pytest.mark.parametrize(("tried", "text"), WRONG.items(), ids=WRONG)
def test_what_a_policy_does_not_have_points_the_way(tried: str, text: str) -> None:
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)) as caught:
        eval(tried, {"MINE": MINE, "Policy": Policy, "polycast": polycast})
    kind, _, end = text.partition(": ...")
    said = f"{caught.type.__name__}: {caught.value}"
    assert said == text if not end else said.startswith(kind) and said.endswith(end)
