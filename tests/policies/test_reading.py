"""What people try on a policy: it reads as a dict, and Python's own errors answer the rest."""

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


# what people try, and the error
WRONG = {
    "MINE['gelu']": "KeyError: 'gelu'",
    "MINE['gleu']": "KeyError: \"unknown op 'gleu'; did you mean 'glu' or 'gelu'?\"",
    "MINE.__setitem__('gelu', 'fp32')": "AttributeError: 'Policy' object has no attribute '__setitem__'",
    "MINE + MINE": "TypeError: unsupported operand type(s) for +: 'Policy' and 'Policy'",
    "MINE.update({'gelu': 'fp32'})": "AttributeError: 'Policy' object has no attribute 'update'",
    "Policy.from_file('mine.yaml')": "AttributeError: type object 'Policy' has no attribute 'from_file'",
    "Policy(softmax='fp32')": "TypeError: Policy.__init__() got an unexpected keyword argument 'softmax'",
    "MINE.category('softmax', 'gpu')": "ValueError: ...; did you mean 'cuda'?",
    "polycast.policy.resolved(device='gpu')": "ValueError: ...; did you mean 'cuda'?",
    "polycast.policy.category('softmax', 'xpuu')": "ValueError: ...; did you mean 'xpu'?",
}


@pytest.mark.parametrize(("tried", "text"), WRONG.items(), ids=WRONG)
def test_what_a_policy_does_not_have_is_an_error(tried: str, text: str) -> None:
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)) as caught:
        eval(tried, {"MINE": MINE, "Policy": Policy, "polycast": polycast})
    kind, _, end = text.partition(": ...")
    said = f"{caught.type.__name__}: {caught.value}"
    assert said == text if not end else said.startswith(kind) and said.endswith(end)
