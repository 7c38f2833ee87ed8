"""Every problem that a policy's content can have. bad_policies.txt is the table, which --rewrite-errors rewrites."""

import re
from pathlib import Path

import pytest
from polycast._grammar.categories import Category

from tests.codegen.sample import HEAD, POLICY, edited, problems

TABLE = Path(__file__).with_name("bad_policies.txt")


def blocks() -> dict[str, str]:
    """Return the table by the names of its cases."""
    texts = TABLE.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    return {text.partition("\n")[0].removeprefix("# "): text for text in texts if text.startswith("# ")}


def policy_of(block: str) -> str:
    """Return the policy of a case: the small one with a place changed or lines added, or a whole file."""
    old, new, whole = ("\n".join(re.findall(rf"(?m)^[{sign}](.*)$", block)) for sign in "-+|")
    return f"{whole}\n" if whole else edited(old, new) if old else f"{POLICY}{new}\n"


def test_the_small_policy_is_sound(tmp_path: Path) -> None:
    assert problems(tmp_path, POLICY) == ""


@pytest.mark.parametrize("name", blocks())
def test_a_problem(name: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    block = blocks()[name]
    found = problems(tmp_path, policy_of(block))
    if pytestconfig.getoption("rewrite_errors"):
        given = "\n".join(line for line in block.splitlines() if not line.startswith("policy.yaml:"))
        TABLE.write_text(TABLE.read_text(encoding="utf-8").replace(block, f"{given}\n{found}"), encoding="utf-8")
    else:
        assert block.endswith(f"\n{found}") and found.count("\n") + 1 == block.count("\npolicy.yaml:")


MANY = """\
devices:
  cuda: {dispatch_key: AutocastCUDA, lower_precision: [float8]}
  cpu: {dispatch_key: CPU, lower_precision: []}
categories:
  fp32: Casts to float32.
  fp32: Casts to float64.
ops:
  tally: {cast: {cudo: fp23}, public: [torch.tally]}
  bend: {cast: promote, overloads: [default, {out: {torch: soon}}, dim], public: [torch.bend]}
"""
MANY_PROBLEMS = [
    "2:56: error: unknown dtype 'float8'",
    "3:23: error: dispatch_key 'CPU' is no autocast key",
    "3:45: error: lower_precision is an empty list",
    *(f"5:3: error: categories has no '{name}'" for name in sorted({kind.value for kind in Category} - {"fp32"})),
    "6:3: error: duplicate key 'fp32', first on line 5",
    "8:18: error: unknown device 'cudo'",
    "8:24: error: unknown category 'fp23'",
    "9:3: error: op 'bend' is not in alphabetical order",
    "9:16: error: 'bend' is promote and takes one tensor",
    "9:60: error: 'soon' is no range of torch releases",
    "9:68: error: op 'bend' has no overload 'dim'",
]


def test_all_problems_come_at_once_and_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(tmp_path, MANY).splitlines()
    assert [problem.partition("; ")[0] for problem in found] == [f"policy.yaml:{problem}" for problem in MANY_PROBLEMS]


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
  older: {{cast: promote, overloads: [{{default: {{torch: '>=2.12'}}}}], public: [torch.older]}}
"""
    assert problems(tmp_path, text) == ""


def test_a_view_that_torch_itself_casts_may_be_listed(tmp_path: Path) -> None:
    assert problems(tmp_path, f"{POLICY}  unfold: {{cast: {{cpu: fp32}}, public: [torch.unfold]}}\n") == ""


def test_a_stock_row_of_releases_that_are_not_recorded_is_not_doubted(tmp_path: Path) -> None:
    text = edited("  bend: {cast: fp32,", "  bend: {cast: {cuda: [{as: stock, torch: '>=2.10'}, fp32]},")
    assert problems(tmp_path, text) == ""


def test_a_thousand_misspelled_ops_cost_a_hundred_guesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guesses = []

    def guess(name: str, *_: object, **__: object) -> list[str]:
        guesses.append(name)
        return []

    monkeypatch.setattr("polycast._grammar.errors.get_close_matches", guess)
    ops = "".join(f"  op{number:04}: {{cast: fp32, public: [torch.bend]}}\n" for number in range(1000))
    found = problems(tmp_path, HEAD + ops).splitlines()
    assert (len(found), len(guesses)) == (1000, 100)
    assert found[-1] == "policy.yaml:1014:3: error: torch has no op 'op0999'; check the spelling"
