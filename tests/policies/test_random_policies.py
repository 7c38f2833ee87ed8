"""Rules of any form, valid and broken: they come to rules that fit, or each problem names its place."""

import copy
import pickle
import re
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from hypothesis import event, given
from hypothesis import strategies as st
from polycast import Policy, policy
from polycast._compiled import DEVICES, DEVICES_LIKE, NAMES
from polycast._grammar.categories import FUNCTIONAL, Category
from polycast.policy import operators
from polycast.policy.policy import PolicyError
from polycast.policy.rules import BUILT_IN, VALUES

from tests.support.mutations import CHARACTERS, damaged
from tests.support.properties import examples

OPERATORS = sorted(torch._C._dispatch_get_all_op_names())
LISTED = sorted({rule.op for rule in BUILT_IN})
PUBLIC = sorted({name for names, _ in NAMES for name in names.split()})
# Values and keys that have no form in a policy.
STRANGE: list[object] = [None, 3, 0.5, True, b"fp32", object(), {1}, print, torch.ones(1), float("nan"), (), [], {}]
STRANGE += ["", "\ud800", "\x07", "fp\n32", "é", "a" * 9999, "::", "aten::", "torch.", "torch.ops.", ".", "mv."]


@st.composite
def misspelt(draw: st.DrawFn, name: str) -> str:
    at = draw(st.integers(0, len(name) - 1))
    return name[:at] + draw(st.sampled_from(("", "x", "_", ".", "::"))) + name[at + draw(st.integers(0, 1)) :]


@st.composite
def names(draw: st.DrawFn) -> str:
    """Draw a name of an operator, most often one that has the name."""
    name = draw(st.sampled_from(draw(st.sampled_from((LISTED, LISTED, LISTED, PUBLIC, OPERATORS)))))
    if "::" in name:
        spelled = f"torch.ops.{name.replace('::', '.', 1)}"
        name = draw(st.sampled_from((name, name.partition(".")[0], spelled, name.removeprefix("aten::"))))
    return draw(misspelt(name)) if draw(st.integers(0, 19)) == 19 else name


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
CATEGORIES = [*["fp32", "lower_precision_fp", "bfloat16"] * 4, *VALUES]
DEVICE_KEYS: list[object] = [*[*DEVICES, "others"] * 3, torch.device("cuda", 1), torch.device("meta")]
CATEGORY = st.one_of(
    *[st.sampled_from(CATEGORIES)] * 7, st.sampled_from(DTYPES), st.sampled_from(CATEGORIES).flatmap(misspelt)
)
EXTRAS = {
    "torch": st.sampled_from((">=2.9", "<2.9", ">=2.0,<3.0", "soon")),
    "note": st.just("Why.") | st.text(st.sampled_from(CHARACTERS), max_size=8),
    "overloads": st.sampled_from((["default"], ["int", "Tensor"], "default", ["Tensor_Scalar"])),
}


def values() -> st.SearchStrategy[object]:
    """Return what a rule may give an op, or something like it."""
    extras = st.fixed_dictionaries({}, optional=EXTRAS)
    cast = st.builds(lambda given, more: {"as": given, **more}, CATEGORY, extras)
    several = st.lists(CATEGORY | cast, min_size=1, max_size=3)
    value: st.SearchStrategy[object] = CATEGORY | cast | several | several.map(tuple)
    for _ in range(2):
        value = st.one_of(value, value, st.dictionaries(st.sampled_from(DEVICE_KEYS), value, min_size=1, max_size=4))
    return st.one_of(*[value] * 19, st.sampled_from(STRANGE))


@st.composite
def rules(draw: st.DrawFn) -> dict[Any, object]:
    """Draw a few rules; at times one with an impossible key, or one that holds itself."""
    found: dict[Any, object] = draw(st.dictionaries(names(), values(), min_size=1, max_size=3))
    kind = draw(st.integers(0, 49))
    if kind == 49:
        found["softmax"] = {"cuda": found}
    elif kind > 46:
        found[draw(st.sampled_from([part for part in STRANGE if isinstance(part, Hashable)]))] = draw(values())
    return found


def as_file(given: dict[Any, object], flow: bool | None) -> str | None:
    """Return the rules as the text of a file; None where no file can hold them."""
    try:
        return yaml.safe_dump({"ops": _plain(given)}, sort_keys=False, default_flow_style=flow)
    except (yaml.YAMLError, RecursionError, TypeError):
        return None


def _plain(part: object) -> object:
    """Return what a file can hold of a value."""
    if isinstance(part, dict):
        return {_plain(key): _plain(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_plain(value) for value in part]
    return str(part).removeprefix("torch.") if isinstance(part, torch.dtype | torch.device) else part


def check(made: Callable[[], Policy], place: str, folder: Path) -> None:
    """Assert that rules become rules that fit, or that each problem has its place."""
    try:
        mine = made()
    except PolicyError as error:
        event("has problems")
        assert error.problems
        for problem in error.problems:
            assert re.fullmatch(rf"{place}: error: \S.*; \S.*", str(problem)), problem
            assert str(problem).isprintable(), problem
        return
    event("valid")
    for rule in mine.by_overload():
        signature = operators.signatures(rule.op)[rule.overload]
        category, dtype = VALUES[rule.category]
        assert signature.variant == FUNCTIONAL and signature.tensors, rule
        assert operators.obstacle(operators.Target(rule.op, rule.overload), signature, category) is None, rule
        assert rule.device in DEVICES and (dtype is None or hasattr(torch, dtype)), rule
    held = {rule.key for rule in mine.by_overload()}
    kept = {rule.key for rule in BUILT_IN if rule.category == Category.STOCK.value}
    like = {(*key, device) for *key, other in held for device in DEVICES if DEVICES_LIKE[device] == other}
    assert like <= held | kept, mine
    mine.save(folder / "saved.yaml")
    others = [Policy(mine.rules), Policy.load(folder / "saved.yaml"), eval(repr(mine), {"Policy": Policy}), mine | mine]
    others += [pickle.loads(pickle.dumps(mine)), copy.deepcopy(mine)]
    for other in others:
        assert (other, hash(other), len(other.by_overload())) == (mine, hash(mine), len(mine.by_overload()))
    assert mine.diff(others[0]) == "" and str(mine) and policy.resolved(mine, device="cpu")


@given(given_rules=rules())
@examples(40)
def test_rules_as_a_dict(tmp_path: Path, given_rules: dict[Any, object]) -> None:
    check(partial(Policy, given_rules), "Policy: .+", tmp_path)


TEXTS = st.builds(as_file, rules(), st.sampled_from((None, True, False))).filter(lambda text: text is not None)


@given(content=TEXTS.flatmap(lambda text: damaged(str(text), least=0)))
@examples(40)
def test_rules_as_a_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    check(partial(Policy.load, path), rf"{re.escape(str(path))}:\d+:\d+", tmp_path)
