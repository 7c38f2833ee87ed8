"""The file that codegen generates for a backend outside of PyTorch. The file requires only PyTorch."""

from pathlib import Path

import pytest

from codegen.categories import DEFAULT, Category, split_name
from codegen.parse import read_policy
from codegen.schemas import Schemas
from codegen.standalone import render_standalone
from tests.codegen.sample import EVERY_CATEGORY, HEAD, MINE, read
from tests.support.samples.backends import LISTS

ROOT = Path(__file__).parents[2]
REGISTRATION = Path(__file__).with_name("standalone.txt").read_text(encoding="utf-8")


def test_the_file_for_a_rule_of_each_category(tmp_path: Path) -> None:
    """For a policy with a rule of each category, the generated file equals ``standalone.txt``."""
    policy = read(tmp_path, EVERY_CATEGORY)
    assert render_standalone(policy, policy.devices[-1], Path("a.cpp")) == REGISTRATION


def test_a_note_is_a_one_line_comment_and_releases_are_separate_only_if_rules_differ(tmp_path: Path) -> None:
    op = '  bend: {cast: {cuda: {as: fp32, note: "Why?\\n#if 0 \\\\"}}, public: [torch.bend]}\n'
    policy = read(tmp_path, HEAD.replace("categories:", f"{MINE}categories:") + op)
    registration = render_standalone(policy, policy.devices[-1], Path("a.cpp"))
    assert "  KERNEL(c10::DeviceType::XLA, bend, fp32)  // Why? #if 0\n" in registration
    assert "torch/version.h" not in registration


# A backend's own file has another category or none for these overloads. A note in `policy.yaml` states the reason.
NOTED = {"conv1d.padding", "conv2d.padding", "conv3d.padding", "linalg_matrix_norm", "linalg_matrix_norm.str_ord"}
DIFFERENT = {"npu": NOTED, "musa": set(), "mlu": NOTED | {"_cudnn_rnn"}, "tpu": set()}


@pytest.mark.parametrize("device", DIFFERENT)
def test_a_registration_equals_the_backends_own_except_for_notes(device: str) -> None:
    schemas = Schemas.installed()
    policy = read_policy(ROOT / "policy.yaml", "policy.yaml", schemas)
    rules = [rule for rule in policy.rules() if schemas.release in rule.torch and rule.category is not Category.STOCK]
    made = {rule.schema_name: rule.category.value for rule in rules if rule.device == device}
    own = {name: category for category, names in LISTS[device].items() for name in names}
    # The file of `musa` also uses PyTorch's macros, so `LISTS` has only some of its ops.
    names = own.keys() if device == "musa" else made.keys() | own.keys()
    mine = {name for name in names if made.get(name) != own.get(name)}
    # A backend's PyTorch may have overloads that the installed PyTorch lacks.
    pairs = {name: split_name(name) for name in mine}
    different = {name for name, (op, overload) in pairs.items() if (overload or DEFAULT) in schemas.overloads(op)}
    assert different == DIFFERENT[device]
    assert different <= {rule.schema_name for rule in policy.rules() if rule.device == device and rule.note}
