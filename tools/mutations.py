"""Damages a policy, at random and repeatably: `python -m tools.mutations 20000` says what becomes of it."""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter

from tqdm import tqdm

from codegen.devices import DTYPES
from codegen.render import render
from polycast_grammar.categories import UNLISTED, Category
from polycast_grammar.errors import PolicyError
from tests.codegen.sample import HEAD, read

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
      cuda: [{{torch: '>=2.12', as: fp32}}, {{torch: '>=2.10,<2.11', as: unlisted}}, {{as: fallthrough, note: Why.}}]
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

CHARACTERS = [*":-,[]{}#&*!|>'\"%@`?<=~. \n\t\\_0a", "\r", "\0", "\x07", "\x1b", "\x7f", "\x85", "\xa0", "é", "ß"]
CHARACTERS += ["\u200b", "\u2028", "\u2029", "\u202e", "\ud800", "\ufeff", "\uffff", "中", "٣", "🙂", "\U0010ffff"]
WORDS = [*re.findall(r"[\w.]+", EVERYTHING), *(category.value for category in Category), UNLISTED, "others", *DTYPES]
WORDS += ["'>=2.10'", "'<2.10'", "'>=2.9,<2.13'", "'>=2.13,<2.10'", "soon", "''", "~", "[]", "{}", "null", "yes", "1e3"]
WRAPPERS = ["[$]", "[$, $]", "{$: $}", "{as: $}", "{as: $, note: $}", "{others: $}", "{torch: $}", "'$'", '"$"', "? $"]
WRAPPERS += ["&a $", "[&a $, *a]", "*$", "!$ x", "!!str $", "!!python/name:os.$ ''", "<<: $", "|\n$", "--- $", "$ # $"]
WORD = re.compile(r"[\w.]+")
NODE = re.compile(r"\[[^][]*\]|\{[^{}]*\}|'[^']*'|[\w.]+")


def replace_characters(random: Random, text: str) -> str:
    """Replace a few characters, or none, by nothing or by some that mean something."""
    at = random.randrange(len(text) + 1)
    new: str = random.choice(["", *CHARACTERS]) * random.choice((1, 1, 1, 2, 40))
    return text[:at] + new + text[at + random.choice((0, 1, 1, 2, 8, 64)) :]


def swap_characters(random: Random, text: str) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + text[at : at + 2][::-1] + text[at + 2 :]


def move_line(random: Random, text: str) -> str:
    """Delete a line, repeat it, or put it elsewhere."""
    lines = text.splitlines(keepends=True) or [""]
    line = lines.pop(random.randrange(len(lines)))
    at = random.randrange(len(lines) + 1)
    lines[at:at] = [line] * random.choice((0, 1, 2))
    return "".join(lines)


def indent_line(random: Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = random.randrange(len(lines))
    lines[at] = " " * random.randrange(9) + lines[at].lstrip(" ")
    return "".join(lines)


def replace_word(random: Random, text: str) -> str:
    return _replaced(WORD, random, text, random.choice(WORDS))


def wrap_node(random: Random, text: str) -> str:
    return _replaced(NODE, random, text, random.choice(WRAPPERS))


def truncate(random: Random, text: str) -> str:
    return text[: random.randrange(len(text) + 1)]


def _replaced(pattern: re.Pattern[str], random: Random, text: str, new: str) -> str:
    """Replace a match of the pattern by a text in which it is called $."""
    match = pattern.search(text, random.randrange(len(text) + 1))
    if match is None:
        return text
    return text[: match.start()] + new.replace("$", str(match[0])) + text[match.end() :]


MUTATIONS = [replace_characters, swap_characters, move_line, indent_line, replace_word, wrap_node, truncate]


def mutant(seed: int) -> bytes:
    """Return the policy with one to three mutations; it may no longer be UTF-8."""
    random = Random(seed)
    text = EVERYTHING
    for mutation in random.choices(MUTATIONS, k=random.choice((1, 1, 2, 3))):
        text = mutation(random, text)
    return text.encode(errors="surrogatepass")


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
    assert sum(len(devices) for _, devices in groups) == len(list(policy.registrations()))
    includes = [line for text in files.values() for line in text.splitlines() if "<ATen" in line]
    assert all(re.fullmatch(r"#include <ATen/ops/\w+_ops\.h>", line, re.ASCII) for line in includes), includes
    for row in policy.registrations():
        names = (row.op, row.overload.name, row.overload.dtype_overload or "default", row.device)
        assert all(re.fullmatch(r"\w+", name, re.ASCII) for name in names), row
    return True


def check_mutants(folder: Path, seeds: Iterable[int]) -> tuple[Counter[bool], float]:
    """Check these mutants; return how many are valid and how many not, and the seconds of the slowest."""
    verdicts: Counter[bool] = Counter()
    slowest = 0.0
    for seed in seeds:
        start = perf_counter()
        try:
            verdicts[check(folder, mutant(seed))] += 1
        except Exception as error:
            raise AssertionError(f"mutant({seed})") from error
        slowest = max(slowest, perf_counter() - start)
    return verdicts, slowest


def main(count: int) -> None:
    """Check that many mutants and print what they were."""
    with TemporaryDirectory() as folder:
        verdicts, slowest = check_mutants(Path(folder), tqdm(range(count), "mutants", leave=False))
    print(f"{count} mutants: {verdicts[True]} valid, {verdicts[False]} with errors, the slowest in {slowest:.3f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]))
