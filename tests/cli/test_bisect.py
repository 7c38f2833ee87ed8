"""``polycast bisect``: its output and its files."""

import shlex
import sys
from pathlib import Path

import pytest
from polycast.cli.commands import main
from polycast.policy.policy import Policy

from tests.support.recorded_errors import RecordedError

# This program reads the policy file itself, because importing PyTorch in each run would be slow.
PROGRAM = """
import os, sys, time
import yaml
with open(os.environ["POLYCAST_POLICY"]) as file:
    rules = yaml.safe_load(file)["ops"]

def category(op):
    held = rules.get(op, rules.get("*", "lower_precision_fp"))
    held = held.get("cpu", held) if isinstance(held, dict) else held
    return held if isinstance(held, str) else "lower_precision_fp"

with open("runs.txt", "a") as file:
    file.write(f"{os.getpid()}\\n")
print("the loss is", sum(category(op) != "fp32" for op in ("linear", "matmul", "conv2d")))
sys.stdout.flush()
"""
# This program fails unless the rule of `linear` is fp32.
ONE = PROGRAM + "sys.exit(category('linear') != 'fp32')\n"
GOOD = ("--good", "good.yaml")  # This file has fewer rules than the default, `fp32`, so the search is shorter.


def ran(*words: str, program: str = ONE) -> tuple[int, int]:
    """Run bisect on a program, and return bisect's status and the number of runs of the program."""
    Path("program.py").write_text(program)
    Path("runs.txt").write_text("")
    status = main(["bisect", *words, "--", sys.executable, "program.py"])
    return status, len(Path("runs.txt").read_text().splitlines())


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text("ops: {linear: fp32, matmul: fp32, bmm: fp32, conv2d: fp32}")


def test_it_prints_a_table_and_writes_a_policy_under_which_the_command_is_good(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, runs = ran(*GOOD, "--output", "my rules.yaml")
    out, err = capsys.readouterr()
    assert status == 0
    assert out.splitlines() == [
        "op      good  bad",
        "linear  fp32  lower_precision_fp",
        "",
        'The fix, under which the last run was good: polycast.use({"linear": "fp32"})',
        f"{runs} runs for 4 rules that differ.",
        "Each answer that the result depends on was the same 3 times. If the program fails at random, at "
        "most 1.6% of searches end with a wrong result, and the others end with an error.",
        "The rules are in my rules.yaml. To apply them, run: POLYCAST_POLICY='my rules.yaml' "
        f"{shlex.quote(sys.executable)} program.py",
        "To find the modules as well, call polycast.debug.bisect(check, good='my rules.yaml', bad='built-in', "
        "repeat=1, model=model)",
    ]
    assert len(err.splitlines()) == runs and err.endswith(" s\n")
    assert Policy.load("my rules.yaml") == {"linear": "fp32"}


EXIT = "sys.exit({})\n".format
ERRORS = {
    "a good policy that is bad": PROGRAM + EXIT("3"),
    "a bad policy that is good": PROGRAM + EXIT("0"),
    "a policy that cannot be tested": PROGRAM + EXIT("125"),
    "a run that was killed": PROGRAM + "if category('linear') != 'fp32': os.abort()\n",
    "a status that git bisect run does not accept": PROGRAM + "sys.exit(-(category('linear') != 'fp32'))\n",
    "a silent program": "raise SystemExit(7)",
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_search_that_cannot_start_raises(
    name: str, capsys: pytest.CaptureFixture[str], recorded_error: RecordedError
) -> None:
    with recorded_error():
        status, _ = ran(program=ERRORS[name])
        raise ValueError(f"status {status}: {capsys.readouterr().err.partition('error: ')[2]}")
    assert [*Path().glob("polycast-bisect.*")] == []
