"""Policies as values: read as dicts, joined, compared, printed, written, and sent to other processes."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from polycast import Policy, policy
from polycast._compiled import DEVICES
from polycast.policy.rules import BUILT_IN

import tests.policies.library  # noqa: F401
from tests.support.process import python

MINE = Policy({"softmax": "fp32", "pow.Scalar": {"cuda": "half"}})
READ = {"softmax": "fp32", "pow.Scalar": {"cuda": "float16"}}


def test_a_policy_reads_as_a_dict() -> None:
    assert len(MINE) == 2 and [*MINE] == [*READ] and [*MINE.items()] == [*READ.items()]
    assert {**MINE} == READ == MINE.rules == json.loads(json.dumps(MINE.rules))
    assert MINE["softmax"] == MINE["torch.softmax"] == MINE.get("F.softmax") == "fp32"
    assert "pow.Scalar" in MINE and "pow" not in MINE and "nonsense" not in MINE
    assert MINE.get("nonsense") is None and MINE.get("gelu", "none") == "none"


def test_a_policy_equals_what_does_the_same() -> None:
    assert MINE == READ == MINE == Policy(MINE) == {"torch.softmax": "float32", "pow.Scalar": {"cuda": "fp16"}}
    assert Policy({"pow.Scalar": {"cuda": "fp16"}, "torch.softmax": torch.float32}) == MINE  # in another order
    assert MINE != {"softmax": "fp32"} and MINE != {"sofmax": "fp32"} and MINE != {} and MINE != "fp32"
    assert {MINE: 1}[Policy(READ)] == 1 and len({MINE, Policy(READ), Policy()}) == 2
    assert bool(MINE) and not Policy()


def test_the_category_of_an_op_is_asked_of_a_policy_over_the_built_in_one() -> None:
    assert MINE.category("pow.Scalar", "cuda") == "float16"
    assert MINE.category("softmax")["xla"] == "fp32" and MINE.category("mm", "cpu") == "lower_precision_fp"
    assert Policy({"mm": "unlisted"}).category("mm", "cpu") == "unlisted" == MINE.category("add", "cpu")


def test_notes_and_sources_are_kept_and_no_part_of_what_a_policy_is(tmp_path: Path) -> None:
    note = "Diverged: 'é' \x07 \U0001f642 #1 {"
    made = Policy({"mv": {"as": "fp32", "note": note}})
    made.save(tmp_path / "mine.yaml")
    read = Policy.load(tmp_path / "mine.yaml")
    assert {(rule.note, rule.source) for rule in read.by_overload()} == {(note, f"{tmp_path / 'mine.yaml'}:3:9")}
    assert read == made == Policy({"mv": "fp32"})


# One policy, another, and the rules of both joined.
JOINED: dict[str, tuple[dict[str, object], dict[str, object], dict[str, object]]] = {
    "other ops": ({"mv": "fp32"}, {"mm": "fp32"}, {"mv": "fp32", "mm": "fp32"}),
    "the later wins": ({"mv": "fp32"}, {"torch.mv": "float16"}, {"mv": "float16"}),
    "on its device": ({"mv": "fp32"}, {"mv": {"xpu": "promote"}}, {"mv": {"xpu": "promote", "others": "fp32"}}),
    "an op over an overload": ({"pow.Scalar": "float16"}, {"pow": "fp32"}, {"pow": "fp32"}),
    "an overload over an op": (
        {"pow": "fp32"},
        {"pow.Scalar": "float16"},
        {"pow.Scalar": "float16", "pow": "fp32"},
    ),
}


@pytest.mark.parametrize(("one", "two", "both"), JOINED.values(), ids=JOINED)
def test_policies_join(one: dict[str, object], two: dict[str, object], both: dict[str, object]) -> None:
    assert Policy(one) | Policy(two) == Policy(one) | two == one | Policy(two) == both
    assert Policy(one) | None == one


def test_a_policy_cannot_change() -> None:
    made = Policy({"mv": "fp32"})
    for name in ("digest", "rules", "note"):
        with pytest.raises(AttributeError):
            setattr(made, name, "")
    made.rules.clear()
    assert made.rules == {"mv": "fp32"}


def test_in_another_process_a_policy_has_the_same_digest_and_needs_no_library() -> None:
    rules = {"softmax": {"cuda": "fp32"}, "mv": "float16", "pow.Scalar": "banned"}
    pickled = pickle.dumps(Policy({"library::attention": "fp32"}))
    code = f"import pickle, polycast; print(polycast.Policy({rules}).digest); print(pickle.loads({pickled!r}))"
    digest, _, *lines = python(code, PYTHONHASHSEED="7").splitlines()
    assert digest == Policy(rules).digest
    assert [line.split()[0] for line in lines] == ["library::attention.default", "library::attention.fast"]


TABLE = """\
op             device    category     from
mv             xla       fp32         Policy: mv.xla
mv             cpu, tpu  fp32         Policy: mv.cpu
mv             mps       input_dtype  Policy: mv.mps
library::mean  all       bfloat16     Policy: library::mean
add.Tensor     mps       promote      Policy: torch.add.mps"""
DIFF = """\
op    device  built-in            this      other
dist  xla     unlisted            unlisted  fp32
mv    cpu     unlisted            fp32      float16
mv    tpu     lower_precision_fp  fp32      float16

unlisted: autocast leaves it alone; the ops that it runs follow their own rules."""


def test_a_policy_prints_as_a_table() -> None:
    mv = {"mps": "input_dtype", "xla": "fp32", "cpu": "fp32"}
    assert str(Policy({"mv": mv, "library::mean": "bfloat16", "torch.add": {"mps": "promote"}})) == TABLE


def test_a_difference_prints_as_a_table() -> None:
    made = Policy({"mv": {"cpu": "fp32"}, "dot": {"cpu": "fp32"}})
    assert made.diff(Policy({"dot": {"cpu": "fp32"}, "dist": {"xla": "fp32"}, "mv": {"cpu": "float16"}})) == DIFF
    assert made.diff(made) == Policy().diff() == "" and "stack" in MINE.diff("torch-2.11")


def test_a_policy_for_everything_that_the_built_in_policy_lists() -> None:
    made = {rule.key: rule.category for rule in Policy("fp32").by_overload()}
    assert set(made.values()) == {"fp32"}
    listed = {rule.key[:2] for rule in BUILT_IN}
    assert {key[:2] for key in made} == listed
    kept = {rule.key for rule in BUILT_IN if rule.category in ("banned", "stock")}
    assert {(*key, device) for key in listed for device in DEVICES} - made.keys() == kept
    assert {rule.op for rule in Policy("fp32_append_dtype").by_overload()} == {"norm"}
    assert Policy(Policy("promote").rules) == Policy("promote")


def test_a_listing_says_where_each_category_is_said() -> None:
    rows = policy.resolved(Policy({"mv": "fp32", "library::mean": "fp32"}), device="xla")
    said = {row.op: f"{row.category} {row.source}" for row in rows}
    assert said["mv"] == "fp32 Policy: mv"
    assert said["library::mean"] == "fp32 Policy: library::mean"
    assert said["mm"] == "lower_precision_fp policy.yaml"
    assert next(rule.note for rule in rows if rule.op == "addr").startswith("PyTorch/XLA: ")
    assert ["mv", "xla", "fp32", "Policy:", "mv"] in [line.split() for line in str(rows).splitlines()]
    for device in DEVICES:
        assert [*policy.resolved(device=device)] == sorted(rule for rule in BUILT_IN if rule.device == device)
