"""Random rules: the rules of a valid policy fit their ops, and each problem of an invalid policy names its location."""

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import torch
from hypothesis import event, given
from hypothesis import strategies as st
from polycast import Policy, policy
from polycast._extension import DEVICES, DEVICES_LIKE, NAMES, obstacles
from polycast.policy.categories import STOCK, VALUES
from polycast.policy.policy import PolicyError
from polycast.policy.rules import BUILT_IN, exact_key, qualified

from tests.support.properties import examples

OPERATORS = sorted(torch._C._dispatch_get_all_op_names())
LISTED = sorted({rule.op for rule in BUILT_IN})
PUBLIC = sorted({name for names, _ in NAMES for name in names.split()})
# A policy must reject these values.
STRANGE: list[object] = [None, 3, 0.5, True, b"fp32", object(), {1}, print, torch.ones(1), float("nan"), (), [], {}]
STRANGE += ["", "\ud800", "\x07", "fp\n32", "é", "a" * 9999, "::", "aten::", "torch.", "torch.ops.", ".", "mv."]


@st.composite
def names(draw: st.DrawFn) -> str:
    """Draw the name of an operator, which is sometimes misspelled."""
    name = draw(st.sampled_from(draw(st.sampled_from((LISTED, LISTED, LISTED, PUBLIC, OPERATORS)))))
    if "::" in name:
        spelled = f"torch.ops.{name.replace('::', '.', 1)}"
        name = draw(st.sampled_from((name, name.partition(".")[0], spelled, name.removeprefix("aten::"))))
    return name + draw(st.sampled_from([*[""] * 19, "x"]))


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
CATEGORY = st.sampled_from([*["fp32", "lower_precision_fp", "bfloat16"] * 4, *VALUES, *DTYPES, "fp23"])
DEVICE_KEYS: list[object] = [*[*DEVICES, "others"] * 3, torch.device("cuda", 1), torch.device("meta")]


def values() -> st.SearchStrategy[object]:
    """Return a strategy for the value of a rule, which is sometimes invalid."""
    several = st.lists(CATEGORY, min_size=1, max_size=3)
    value: st.SearchStrategy[object] = CATEGORY | several | several.map(tuple)
    for _ in range(2):
        value = st.one_of(value, value, st.dictionaries(st.sampled_from(DEVICE_KEYS), value, min_size=1, max_size=4))
    return st.one_of(*[value] * 19, st.sampled_from(STRANGE))


RULES = st.dictionaries(
    st.one_of(*[names()] * 49, st.sampled_from([None, 3, "", "é", "::", "mv."])), values(), min_size=1, max_size=3
)


@given(given_rules=RULES)
@examples(40)
def test_rules_fit_their_ops_or_each_problem_names_its_location(tmp_path: Path, given_rules: dict[Any, object]) -> None:
    try:
        mine = Policy(given_rules)
    except PolicyError as error:
        event("has problems")
        assert error.problems
        for problem in error.problems:
            assert re.fullmatch(r".+: \S.*; \S.*", str(problem)), problem
            assert str(problem).isprintable(), problem
        return
    event("valid")
    for rule in mine.by_overload():
        row = [rule.category if device == rule.device else None for device in DEVICES]
        assert rule.device in DEVICES and not any(obstacles(exact_key(qualified(rule.name)), row)), rule
    held = {rule.key for rule in mine.by_overload()}
    kept = {rule.key for rule in BUILT_IN if rule.category == STOCK}
    like = {(name, device) for name, other in held for device in DEVICES if DEVICES_LIKE[device] == other}
    assert like <= held | kept, mine
    mine.save(tmp_path / "saved.yaml")
    others = [
        Policy(mine.rules),
        Policy.load(tmp_path / "saved.yaml"),
        eval(repr(mine), {"Policy": Policy}),
        mine | mine,
    ]
    others += [pickle.loads(pickle.dumps(mine)), copy.deepcopy(mine)]
    for other in others:
        assert (other, hash(other), len(other.by_overload())) == (mine, hash(mine), len(mine.by_overload()))
    assert mine.diff(others[0]) == "" and str(mine) and policy.resolved(mine, device="cpu")
