"""Every problem that a policy's content can have, by its text; bad_policies.txt is the table."""

from pathlib import Path

import pytest

from tests.codegen.sample import HEAD, POLICY, edited, problems


def _cases() -> dict[str, tuple[str, str, str]]:
    """Return what goes, what comes and what is reported for each name in the table."""
    cases = {}
    blocks = Path(__file__).with_name("bad_policies.txt").read_text(encoding="utf-8").split("\n\n")
    for name, *lines in (block.splitlines() for block in blocks if block.startswith("# ")):
        old = [line[1:] for line in lines if line.startswith("-")]
        new = [line[1:] for line in lines if line.startswith("+")]
        expected = [line for line in lines if line.startswith("policy.yaml:")]
        assert name not in cases and len(old) + len(new) + len(expected) == len(lines), name
        cases[name] = ("\n".join(old), "\n".join(new), "\n".join(expected))
    return cases


CASES = _cases()


def test_the_small_policy_is_sound(tmp_path: Path) -> None:
    assert problems(tmp_path, POLICY) == ""


@pytest.mark.parametrize(("old", "new", "expected"), CASES.values(), ids=[name.removeprefix("# ") for name in CASES])
def test_a_problem(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert problems(tmp_path, edited(old, new)) == expected


MANY = """\
devices:
  cuda: {dispatch_key: AutocastCUDA, lower_precision: [float8]}
  cpu: {dispatch_key: CPU, lower_precision: []}
categories:
  fp32: Casts to float32.
  fp32: Casts to float64.
ops:
  tally: {cast: {cudo: fp23}, public: [torch.tally], message: Call nothing.}
  bend: {cast: promote, overloads: [default, {out: {torch: soon}}, dim], public: [torch.bend, torch.bend]}
  bent: {cast: {cpu: banned}, public: [torch.bent], message: Call bend.}
  size: {cast: {cuda: stock}, publik: [torch.size]}
"""
MANY_PROBLEMS = """\
policy.yaml:2:56: error: unknown dtype 'float8'; did you mean 'float16'?
policy.yaml:3:23: error: dispatch_key 'CPU' is no autocast key; name one of torch's, as in AutocastCUDA
policy.yaml:3:45: error: lower_precision is an empty list; give it a list of names, as in [one, two]
policy.yaml:5:3: error: categories has no 'banned'; add it
policy.yaml:5:3: error: categories has no 'fallthrough'; add it
policy.yaml:5:3: error: categories has no 'fp32_append_dtype'; add it
policy.yaml:5:3: error: categories has no 'fp32_set_opt_dtype'; add it
policy.yaml:5:3: error: categories has no 'lower_precision_fp'; add it
policy.yaml:5:3: error: categories has no 'promote'; add it
policy.yaml:5:3: error: categories has no 'stock'; add it
policy.yaml:6:3: error: duplicate key 'fp32', first on line 5; keep one of them
policy.yaml:8:18: error: unknown device 'cudo'; did you mean 'cuda'?
policy.yaml:8:24: error: unknown category 'fp23'; did you mean 'fp32'?
policy.yaml:9:3: error: op 'bend' stands after 'tally'; keep the ops in alphabetical order
policy.yaml:9:16: error: 'bend' is promote and takes one tensor; use fp32 or lower_precision_fp
policy.yaml:9:60: error: 'soon' is no range of torch releases; write it as '>=2.10', '<2.13' or both with ','
policy.yaml:9:68: error: op 'bend' has no overload 'dim'; use one of default, out
policy.yaml:9:95: error: public of op 'bend' names 'torch.bend' twice; keep one of them
policy.yaml:10:3: error: op 'bent' stands after 'tally'; keep the ops in alphabetical order
policy.yaml:10:3: error: torch has no op 'bent'; did you mean 'bend'?
policy.yaml:11:3: error: op 'size' stands after 'tally'; keep the ops in alphabetical order
policy.yaml:11:9: error: op 'size' has no 'public'; add it
policy.yaml:11:31: error: unknown key 'publik' of op 'size'; did you mean 'public'?"""


def test_all_problems_come_at_once_and_in_the_order_of_the_file(tmp_path: Path) -> None:
    assert problems(tmp_path, MANY) == MANY_PROBLEMS


def test_a_problem_of_a_device_is_not_repeated_where_ops_name_it(tmp_path: Path) -> None:
    text = edited("AutocastCUDA, lower_precision", "AutocastCUDA, lower_precison")
    assert problems(tmp_path, text) == (
        "policy.yaml:2:9: error: device 'cuda' has no 'lower_precision'; add it\n"
        "policy.yaml:2:38: error: unknown key 'lower_precison' of device 'cuda'; did you mean 'lower_precision'?"
    )


def test_a_schema_is_checked_only_in_releases_that_the_row_holds_for(tmp_path: Path) -> None:
    text = f"""{HEAD}\
  bend: {{cast: [{{torch: '>=2.10', as: promote}}, fp32], public: [torch.bend]}}
  newer: {{cast: promote, overloads: [{{default: {{torch: '>=2.10'}}}}], public: [torch.newer]}}
  older: {{cast: promote, overloads: [{{default: {{torch: '<2.9'}}}}], public: [torch.older]}}
"""
    assert problems(tmp_path, text) == ""
