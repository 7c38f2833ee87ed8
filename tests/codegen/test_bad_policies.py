"""Every problem that a policy's content can have. bad_policies.txt is the table, which --rewrite-errors rewrites."""

import re
from pathlib import Path

import pytest

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


# Ops that are added to the small policy. What a schema does not allow is allowed in other releases than this one.
SOUND = {
    "nothing": "",
    "a category elsewhere": "turn: {cast: [{torch: '>=2.10', as: promote}, fp32], overloads: [by], public: [torch]}",
    "an overload of another release": "void: {cast: fp32, overloads: [{new: {torch: '>=2.10'}}], public: [torch.new]}",
    "a view that torch itself casts": "unfold: {cast: {cpu: fp32}, public: [torch.unfold]}",
    "stock in another release": "unfold: {cast: {xla: [{as: stock, torch: '>=2.10'}, fp32]}, public: [torch.unfold]}",
}


@pytest.mark.parametrize("op", SOUND.values(), ids=SOUND)
def test_a_sound_policy(tmp_path: Path, op: str) -> None:
    assert problems(tmp_path, f"{POLICY}  {op}\n" if op else POLICY) == ""


@pytest.mark.parametrize("name", blocks())
def test_a_problem(name: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    block = blocks()[name]
    found = problems(tmp_path, policy_of(block))
    if pytestconfig.getoption("rewrite_errors"):
        given = "\n".join(line for line in block.splitlines() if not line.startswith("policy.yaml:"))
        TABLE.write_text(TABLE.read_text(encoding="utf-8").replace(block, f"{given}\n{found}"), encoding="utf-8")
    else:
        assert block.endswith(f"\n{found}") and found.count("\n") + 1 == block.count("\npolicy.yaml:")


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
