"""Plans: files with rules for the modules of models."""

import pickle
from copy import deepcopy
from pathlib import Path

import polycast
import pytest
from polycast import Policy, PolicyError
from polycast.policy.plan import Plan
from polycast.policy.sides import diff

NOTED = {"softmax": {"cpu": {"as": "fp32", "note": "its sum overflows in float16"}}}
PLAN = Plan(
    Policy(NOTED), {"Net": {"encoder.0": {"linear": "fp32"}, "": {"softmax": "bf16"}, "re:x.*": {"mm": "fp32"}}}
)
FILE = """\
ops:
  softmax:
    cpu:
      as: fp32
      note: its sum overflows in float16
models:
  Net:
    encoder.0:
      linear: fp32
    '': {softmax: bfloat16}
    re:x.*:
      mm: fp32
"""
TABLE = """\
module         op       device    category  from
               softmax  cpu, tpu  fp32      Policy: softmax.cpu.as: its sum overflows in float16
Net.encoder.0  linear   all       fp32      Policy: linear
Net            softmax  all       bfloat16  Policy: softmax
Net.re:x.*     mm       all       fp32      Policy: mm"""


def test_a_plan_is_saved_with_its_notes_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    PLAN.save(path)
    assert Plan.load(path) == PLAN and Plan.load(path).ops.rules == NOTED
    assert path.read_text(encoding="utf-8") == FILE.replace("'': {softmax: bfloat16}", "'':\n      softmax: bfloat16")
    path.write_text(FILE, encoding="utf-8")
    assert Plan.load(path) == PLAN


def test_a_plan_prints_as_a_table() -> None:
    assert str(PLAN) == TABLE and str(Plan()) == ""


def test_equal_plans_do_the_same() -> None:
    same = Plan(NOTED, {"Net": {"": {"softmax": "bf16"}, "re:x.*": {"mm": "fp32"}, "encoder.0": {"linear": "fp32"}}})
    assert same == PLAN == deepcopy(PLAN) == pickle.loads(pickle.dumps(PLAN)) and hash(same) == hash(PLAN)
    others = [Plan(), Plan(PLAN.ops), Plan({}, PLAN.models), Plan(PLAN.ops, {"Other": PLAN.models["Net"]}), PLAN.ops]
    assert all(other != PLAN for other in others)
    assert Plan(NOTED, {"Net": {}}) == Plan(NOTED, {"Net": {"a": {}}}) == Plan(NOTED) and not Plan(
        {}, {"Net": {"a": {}}}
    )


def test_the_rules_of_the_later_plan_decide() -> None:
    later = Plan({"mm": "bf16"}, {"Net": {"": {"softmax": "fp32", "mm": "fp32"}}, "Other": {"a": {"mm": "fp32"}}})
    joined = PLAN | later
    assert joined.ops == PLAN.ops | later.ops and joined.models["Other"] == later.models["Other"]
    assert joined.models["Net"][""] == {"softmax": "fp32", "mm": "fp32"}
    assert joined.models["Net"]["encoder.0"] == {"linear": "fp32"}


# a file, and its problems
BAD = {
    "models: 5": (
        "1:9: error: models is no mapping; give it one from the class of a model to its modules and their rules"
    ),
    "models: {Net: fp32}": (
        "1:15: error: model 'Net' is no mapping; give it one from modules to their rules, "
        "as in {encoder.0: {linear: fp32}, '': {softmax: fp32}}"
    ),
    "models: {Net.encoder.0: {linear: fp32}}": (
        "1:10: error: 'Net.encoder.0' is no name of a class; write Net: {encoder.0: ...}"
    ),
    "models: {Net#2: {a: fp32}}": (
        "1:10: error: 'Net#2' is no name of a class; write Net, whose rules hold for each instance"
    ),
    "models: {Net: {a: {sofmax: fp32}, b: fp23, c: [d], e: {softmax: {gpu: fp32}}}}\nops: {softmx: fp32}": (
        "1:20: error: unknown op 'sofmax'; did you mean 'softmax'?\n"
        "1:38: error: unknown category 'fp23'; did you mean 'fp32'?\n"
        "1:47: error: module 'c' has no rules; give it some, as in {linear: fp32}, or a category for every op\n"
        "1:66: error: unknown device 'gpu'; did you mean 'cuda'?\n"
        "2:7: error: unknown op 'softmx'; did you mean 'softmax'?"
    ),
    "models: {Net: {a: torch-2.99}}": "1:19: error: no release 'torch-2.99' is recorded; use one of torch-2.9, ",
    "ops: {}\nmodel: {Net: {a: fp32}}": "2:1: error: unknown key 'model' of the policy; did you mean 'models'?",
    "ops: {}\nmodules: {Net: {a: fp32}}": ("2:1: error: unknown key 'modules' of the policy; did you mean 'models'?"),
}


@pytest.mark.parametrize("text", BAD)
def test_every_problem_of_a_file_has_its_place(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError) as error:
        Plan.load("plan.yaml")
    assert str(error.value).replace("plan.yaml:", "").startswith(BAD[text])
    assert len(error.value.problems) == BAD[text].count("\n") + 1
    before = polycast.policy.in_force()
    with pytest.raises(PolicyError) as used:
        polycast.use("plan.yaml")
    assert str(used.value) == str(error.value) and polycast.policy.in_force() == before


DIFFERENT = """\
module         op          device  built-in            plan.yaml  why
               softmax     cpu     unlisted            fp32       [1]
Net.encoder.0  linear      cpu     lower_precision_fp  fp32
Net            softmax     cpu     unlisted            bfloat16
Net.re:x.*     mm.default  cpu     lower_precision_fp  fp32
Net.re:x.*     mm.dtype    cpu     unlisted            fp32

unlisted: autocast leaves it alone; the ops that it runs follow their own rules.
[1] its sum overflows in float16"""
INSIDE = """\
module       op      device  plan.yaml  inside.yaml  why
             relu    cpu     unlisted   fp32
Net.encoder  linear  cpu     fp32       bfloat16     [1]

unlisted: autocast leaves it alone; the ops that it runs follow their own rules.
[1] faster"""


def test_the_differences_of_files_name_the_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PLAN.save("plan.yaml")
    assert diff("built-in", "plan.yaml", "cpu") == DIFFERENT
    linear = {"as": "bf16", "note": "faster"}
    Plan({}, {"Net": {"": {"linear": "fp32"}}}).save("plan.yaml")
    Plan({"relu": "fp32"}, {"Net": {"": {"linear": "fp32"}, "encoder": {"linear": linear}}}).save("inside.yaml")
    assert diff("plan.yaml", "inside.yaml", "cpu") == INSIDE
    assert diff("plan.yaml", "plan.yaml") == "plan.yaml and plan.yaml do the same."


def test_a_policy_takes_no_rules_for_modules(tmp_path: Path) -> None:
    PLAN.save(tmp_path / "plan.yaml")
    for value in (tmp_path / "plan.yaml", {"models": {"Net": {"a": "fp32"}}}):
        with pytest.raises(PolicyError) as error:
            polycast.autocast("cpu", policy=value)
        assert "'models'" in str(error.value)


# arguments of a plan, and the error
WRONG = [
    ((None, {"Net": "fp32"}), "the models are {'Net': 'fp32'}; give a mapping of mappings"),
    ((None, ["Net"]), "the models are ['Net']; give a mapping of mappings, as in {'Net': {'lm_head': 'fp32'}}"),
    ((None, {"Net": {"a": "fp23"}}), "Plan: models.Net.a: error: unknown category, release or file 'fp23'; did you"),
    ((None, {"Net": {"a": {"mn": "fp32"}}}), "Policy: models.Net.a.mn: error: unknown op 'mn'; did you mean "),
    ((None, {"Net": {"a": 3}}), "Plan: models.Net.a: error: the policy is 3; give a dict of rules"),
]


@pytest.mark.parametrize(("arguments", "text"), WRONG)
def test_wrong_arguments(arguments: tuple[object, ...], text: str) -> None:
    with pytest.raises((TypeError, PolicyError)) as error:
        Plan(*arguments)  # type: ignore[arg-type]
    assert str(error.value).startswith(text)
