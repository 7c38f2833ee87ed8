"""Damaged policies: each is still valid or has proper problems, and none takes long."""

import re
from pathlib import Path
from time import perf_counter

from hypothesis import event, given
from polycast._grammar.categories import UNLISTED, Category
from polycast._grammar.errors import PolicyError

from codegen.devices import DTYPES
from codegen.render import render
from tests.codegen.sample import HEAD, read
from tests.support.mutations import damaged
from tests.support.properties import examples

# A device with exceptions, of a backend outside of torch, before another one.
NPU = """\
  npu:
    dispatch_key: AutocastXLA
    lower_precision: [bfloat16]
    like: cuda
    backend: its file
    except: {fp32: [join, tally.dim], unlisted: [tally]}
  cpu:"""
# Everything that a policy can say.
EVERYTHING = f"""\
# A comment.
{HEAD.replace("  cpu:", NPU)}\
  bend:
    cast:
      cuda: [{{torch: '>=2.12', as: fp32}}, {{torch: '>=2.10,<2.11', as: unlisted}}, {{as: input_dtype, note: Why.}}]
      xla: unlisted
      others: {{as: stock, note: "a \\"quoted\\" | note"}}
    public: [torch.bend, torch.Tensor.bend]
  fold:
    cast: {{cuda: banned, cpu: promote}}
    public:
      - torch.fold
      - torch.Tensor.fold
    message: |
      Call join.

      It is safe.
  join: {{cast: {{cuda: promote, others: unlisted}}, public: [torch.join]}}
  newer: {{cast: lower_precision_fp, overloads: [default: {{torch: '>=2.10'}}], public: [torch.newer]}}
  size:
    cast: {{cuda: [{{as: fp32_append_dtype, overloads: [default]}}, fp32]}}
    overloads:
      - default:
          dtype_overload: dtype
          note: >-
            A note
            of two lines.
      - dim
    public: [torch.size]
  sway: {{cast: [{{as: promote, torch: '<2.13'}}, fp32], public: [torch.sway]}}
  tally:
    cast: {{cpu: fp32_set_opt_dtype, xla: fp32}}
    overloads: [default, {{dim: {{torch: '<2.13'}}}}]
    public: [torch.tally]
documents:
  one.txt:
    title: One
    lists:
      - {{devices: [xla, cpu], dtypes: [bfloat16], as: fp32, names: [tally, {{__tally__: tally}}]}}
      - devices: [cuda]
        dtypes: [float16]
        as: lower_precision_fp
        names: [newer, {{newest: [newer]}}]
  two.rst: {{title: Two, lists: [{{devices: [cuda, xla], dtypes: [bfloat16], as: fp32, names: [size]}}]}}
composites:
  torch.Origami: [fold, join]
"""

WORDS = [*(category.value for category in Category), UNLISTED, "others", *DTYPES]


def check(folder: Path, content: bytes) -> bool:
    """Return whether the policy is valid; assert that it can be rendered, or that each problem is a proper one."""
    try:
        policy = read(folder, content)
    except PolicyError as error:
        text = content.decode(errors="replace")
        lines = [*re.split("\r\n|[\n\r\x85\u2028\u2029]", text), ""]  # as YAML counts them; the last is the file's end
        assert error.problems
        for problem in error.problems:
            assert re.fullmatch(r"policy\.yaml:\d+:\d+: error: \S.*; \S.*", str(problem)), problem
            assert str(problem).isprintable(), problem
            assert 1 <= problem.location.line <= len(lines), problem
            assert 1 <= problem.location.column <= len(lines[problem.location.line - 1]) + 1, problem
        return False
    files = render(policy)
    groups = [group for op in policy.ops for group in op.groups()]
    assert files["policy_cases.jsonl"].count("\n") - 1 == len(groups) > 0
    assert sum(text.count("\n  add_rules(") for text in files.values()) == len(groups)
    assert sum(len(devices) for _, devices in groups) == len(list(policy.rules()))
    includes = [line for text in files.values() for line in text.splitlines() if "<ATen" in line]
    assert all(re.fullmatch(r"#include <ATen/ops/\w+_ops\.h>", line, re.ASCII) for line in includes), includes
    for rule in policy.rules():
        names = (rule.op, rule.overload.name, rule.overload.dtype_overload or "default", rule.device)
        assert all(re.fullmatch(r"\w+", name, re.ASCII) for name in names), rule
    return True


def test_the_policy_that_is_damaged_is_valid(tmp_path: Path) -> None:
    assert check(tmp_path, EVERYTHING.encode())


@given(content=damaged(EVERYTHING, WORDS))
@examples(50)
def test_a_damaged_policy_is_valid_or_has_proper_problems(tmp_path: Path, content: bytes) -> None:
    start = perf_counter()
    event("valid" if check(tmp_path, content) else "has problems")
    assert perf_counter() - start < 5
