"""The files for the owners of a backend outside of torch, which need torch alone."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from codegen.parse import read_policy
from codegen.schemas import Schemas
from codegen.standalone import render_standalone
from tests.codegen.sample import HEAD, read
from tests.support.samples.backends import LISTS

ROOT = Path(__file__).parents[2]
MINE = "  mine: {dispatch_key: AutocastPrivateUse1, lower_precision: [bfloat16], like: cuda, backend: its file}\n"
EVERY_CATEGORY = f"""\
{HEAD.replace("categories:", MINE + "categories:")}\
  bend: {{cast: {{cuda: lower_precision_fp}}, public: [torch.bend]}}
  fold: {{cast: {{cuda: {{as: input_dtype, note: Why.}}, cpu: promote}}, public: [torch.fold]}}
  join: {{cast: {{cuda: promote}}, public: [torch.join]}}
  size:
    cast: {{mine: [{{overloads: [default], as: fp32_append_dtype}}, {{as: stock, note: Its own.}}]}}
    overloads: [default: {{dtype_overload: dtype}}, dim]
    public: [torch.size]
  sway: {{cast: {{cuda: banned}}, public: [torch.sway], message: 'Call "bend".'}}
  tally: {{cast: {{cuda: fp32_set_opt_dtype}}, overloads: [default, dim: {{torch: '<2.13'}}], public: [torch.tally]}}
  turn: {{cast: {{cpu: fp32}}, overloads: [by], public: [torch.count]}}
"""
# Of each file what stands in it.
FILES = Path(__file__).with_name("standalone.txt").read_text(encoding="utf-8")


def test_each_category_in_each_file(tmp_path: Path) -> None:
    policy = read(tmp_path, EVERY_CATEGORY)
    files = render_standalone(policy, policy.devices[-1], [Path(name) for name in ("a.cpp", "test_a.py", "a.md")])
    registration, test, table = files.values()
    _, expected, cases, rows = re.split(r"\n?== [A-Z]+\n", FILES)
    assert registration == expected
    assert cases in test
    assert "LOWER = [torch.bfloat16]\n" in test
    compile(test, "test_a.py", "exec")
    assert table.endswith(rows)
    assert "\nTorch's default is `float16`; this device's is `bfloat16` if the backend calls\n" in table


def test_a_note_is_a_comment_of_one_line_and_releases_are_told_apart_only_where_rules_differ(tmp_path: Path) -> None:
    op = '  bend: {cast: {cuda: {as: fp32, note: "Why?\\n#if 0 \\\\"}}, public: [torch.bend]}\n'
    mine = MINE.replace("[bfloat16]", "[float16]")
    policy = read(tmp_path, HEAD.replace("categories:", f"{mine}categories:") + op)
    registration, table = render_standalone(policy, policy.devices[-1], [Path("a.cpp"), Path("a.md")]).values()
    assert "  KERNEL_PRIVATEUSEONE(bend, fp32)  // Why? #if 0\n" in registration
    assert "torch/version.h" not in registration
    assert "\nThe lower precision of a region is `float16`.\nTensors in float64" in table  # as torch's default is


def registered(text: str, release: tuple[int, int]) -> dict[str, str]:
    """Return what a registration file registers with a release of torch: categories by overload."""
    kept, holds = [], True
    for line in text.splitlines():
        if line.startswith("#if "):
            condition = line[4:].replace("TORCH_VERSION_MAJOR * 1000 + TORCH_VERSION_MINOR", "release")
            holds = eval(condition.replace("&&", "and"), {"release": release[0] * 1000 + release[1]})
        elif line == "#endif":
            holds = True
        elif holds:
            kept.append(line)
    text = "\n".join(kept)
    found = {name.replace(", ", "."): category for name, category in re.findall(r"ONE\((\w+(?:, \w+)?), (\w+)\)", text)}
    found |= dict.fromkeys(re.findall(r'::call, "([\w.]+)"', text), "fp32_append_dtype")
    return found | dict.fromkeys(re.findall(r'"aten::(\w+)"\), .*_banned', text), "banned")


def macros() -> dict[str, str]:
    """Return the lists of the installed torch that its header offers to backends: categories by overload."""
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None
    text = (Path(spec.origin).parent / "include" / "ATen" / "autocast_mode.h").read_text(encoding="utf-8")
    found = dict.fromkeys(re.findall(r'^ +"(norm\.\w+)", ', text, re.MULTILINE), "fp32_append_dtype")
    lists = r"#define AT_FORALL_(LOWER_PRECISION_FP|FP32|FP32_SET_OPT_DTYPE|PROMOTE)\(_\)((?:.*\\\n)*.*\n)"
    for name, body in re.findall(lists, text):
        found |= {match.replace(", ", "."): name.lower() for match in re.findall(r"_\((\w+(?:, \w+)?)\)", body)}
    return found


# The overloads for which a backend's own file has another category or none, and the policy a note that says why.
NOTED = {"conv1d.padding", "conv2d.padding", "conv3d.padding", "linalg_matrix_norm", "linalg_matrix_norm.str_ord"}
DIFFERENT = {"npu": NOTED, "musa": NOTED, "mlu": NOTED | {"_cudnn_rnn"}, "tpu": set()}


@pytest.mark.parametrize("device", DIFFERENT)
def test_a_registration_is_the_backends_own_but_for_notes(device: str) -> None:
    schemas = Schemas.installed()
    policy = read_policy(ROOT / "policy.yaml", "policy.yaml", schemas)
    (mine,) = [one for one in policy.devices if one.name == device]
    (text,) = render_standalone(policy, mine, [Path("a.cpp")]).values()
    made = registered(text, schemas.release)
    own = macros() if device == "musa" else {}
    own |= {name: category for category, names in LISTS[device].items() for name in names.split()}
    names = {name for name in made.keys() | own.keys() if is_there(schemas, name)}
    different = {name for name in names if made.get(name) != own.get(name)}
    assert different == DIFFERENT[device]
    assert different <= {rule.schema_name for rule in policy.rules() if rule.device == device and rule.note}


def is_there(schemas: Schemas, name: str) -> bool:
    """Return whether the installed torch has an overload, which that of a backend may have for itself."""
    op, _, overload = name.partition(".")
    return (overload or "default") in schemas.overloads(op)
