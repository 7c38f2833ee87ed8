"""The C++ that a policy becomes, compiled against a torch of a few lines: what the program holds is the policy."""

import shutil
import subprocess
from pathlib import Path

import pytest
from polycast._grammar.categories import Category

from codegen.render import render
from codegen.write import write
from tests.codegen.sample import HEAD, HOSTILE, SCHEMAS, read

CSRC = Path(__file__).parents[2] / "csrc"

NPU = """\
  npu: {dispatch_key: AutocastXLA, lower_precision: [bfloat16], like: xla, backend: b, except: {unlisted: [fold]}}
  cpu:"""
POLICY = f"""{HEAD.replace("  cpu:", NPU)}\
  bend: {{cast: {{cpu: [{{torch: '>=2.12', as: fp32}}, {{as: input_dtype, note: HOSTILE}}]}}, public: [torch.bend]}}
  fold: {{cast: banned, public: [torch.fold], message: HOSTILE}}
  newer: {{cast: fp32, overloads: [dim: {{torch: '>=2.12'}}, str: {{torch: '>=2.10'}}], public: [torch.newer]}}
  size: {{cast: {{cuda: fp32_append_dtype}}, overloads: [default: {{dtype_overload: dtype}}], public: [torch.size]}}
  tally: {{cast: fp32_set_opt_dtype, overloads: [default: {{torch: '<2.10'}}, dim], public: [torch.tally, torch.count]}}
composites:
  torch.count: [bend, fold]
"""

# A torch of release 2.9 that knows the ops of the small torch, and nothing of those that are newer.
FAKE_TORCH = {
    "torch/version.h": "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 9\n",
    "autocast/kernel.h": """\
#pragma once
#include "autocast/table.h"
namespace at::_ops {}
namespace torch { class CppFunction {}; }
namespace polycast::autocast {
template <class Op, class Target = Op>
torch::CppFunction kernel(Slot /*slot*/) { return {}; }
}
""",
    **{
        f"ATen/ops/{op}_ops.h": "namespace at::_ops {\n"
        + "".join(f"struct {op if name == 'default' else f'{op}_{name}'} {{}};\n" for name in SCHEMAS.overloads(op))
        + "}\n"
        for op in SCHEMAS.ops
    },
}

MAIN = """
#include <cstdio>
int main() {
  using namespace polycast::autocast;
  for (const Device& device : devices()) std::printf("%s %s%c", device.name, device.dispatch_key, 0);
  for (const Sentence& sentence : sentences()) std::printf("%s: %s%c", sentence.name, sentence.text, 0);
  for (const Names& entry : composites()) std::printf("%s: %s%c", entry.names, entry.ops, 0);
  for (const Names& entry : names()) std::printf("%s: %s%c", entry.names, entry.ops, 0);
  for (const BuiltInRule& rule : built_in_rules()) {
    const char* name = "";
    for (const Sentence& sentence : sentences()) name = sentence.category == rule.category ? sentence.name : name;
    std::printf("%s %s %s %s %d|%s|%s%c", rule.op, rule.overload, rule.device, name, rule.kernel != nullptr, rule.note,
                rule.message, 0);
  }
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_compiled_policy_is_the_policy(tmp_path: Path) -> None:
    quoted = '"' + "".join(f"\\U{ord(character):08x}" for character in HOSTILE) + '"'
    policy = read(tmp_path, POLICY.replace("HOSTILE", quoted))
    files = render(policy)
    main = "".join(f'#include "{name}"\n' for name in files if name.endswith(".cpp")) + MAIN
    write({**FAKE_TORCH, **files, "main.cpp": main}, tmp_path / "src")

    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-trigraphs", "-I.", f"-I{CSRC}"]
    subprocess.run(["g++", *options, "main.cpp", "-o", "main"], cwd=tmp_path / "src", check=True)
    output = subprocess.run([tmp_path / "src" / "main"], check=True, capture_output=True).stdout

    expected = [f"{device.name} {device.dispatch_key}" for device in policy.devices]
    expected += [f"{category.value}: {sentence}" for category, sentence in policy.sentences.items()]
    expected += [f"{name}: {' '.join(ops)}" for name, ops in policy.composites]
    rules = [rule for rule in policy.rules() if SCHEMAS.release in rule.torch]
    expected_rules = [f"{' '.join(op.public)}: {op.name}" for op in policy.ops] + [
        f"{rule.op} {rule.overload.name} {rule.device} {rule.category.value} "
        f"{int(rule.category is not Category.STOCK)}|{rule.note or ''}|{rule.message or ''}"
        for rule in rules
    ]
    found = output.decode().removesuffix("\0").split("\0")
    assert found[: len(expected)] == expected
    assert sorted(found[len(expected) :]) == sorted(expected_rules)  # the shards come in an order of their own
    assert {rule.op for rule in rules} == {"bend", "fold", "size", "tally"}
