"""`polycast bisect`: its output, its files, and how it resumes."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from polycast.cli.commands import main
from polycast.policy.policy import Policy

from tests.support.recorded_errors import RecordedError

# A program that imports no torch: it reads its rules from the file.
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
# It is bad with linear as in built-in.
ONE = PROGRAM + "sys.exit(category('linear') != 'fp32')\n"
GOOD = ("--good", "good.yaml")  # fewer rules than fp32


def ran(*words: str, program: str = ONE) -> tuple[int, int]:
    """Run bisect on a program; return its status, and the number of runs of the program."""
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
    status, runs = ran(*GOOD)
    out, err = capsys.readouterr()
    assert status == 0
    assert out.splitlines() == [
        "op      good  bad",
        "linear  fp32  lower_precision_fp",
        "",
        'The fix, under which the last run was good: polycast.use({"linear": "fp32"})',
        f"{runs} runs for 4 rules that differ.",
        "The result rests on answers that were found 3 times each, without a difference. If the program fails at "
        "random, searches end with an error or, at most 1.6% of them, with a wrong result.",
        "The rules are in polycast-bisect.yaml: "
        f"POLYCAST_POLICY=polycast-bisect.yaml {shlex.quote(sys.executable)} program.py",
        "In Python this finds the modules: polycast.debug.bisect(check, good='polycast-bisect.yaml', bad='built-in', "
        "repeat=1, model=model)",
    ]
    assert len(err.splitlines()) == runs
    assert Policy.load("polycast-bisect.yaml") == {"linear": "fp32"}


EXIT = "sys.exit({})\n".format
ERRORS = {
    "a good that is bad": PROGRAM + EXIT("3"),
    "a bad that is good": PROGRAM + EXIT("0"),
    "an end that cannot be tested": PROGRAM + EXIT("125"),
    "a run that was killed": PROGRAM + "if category('linear') != 'fp32': os.abort()\n",
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


def test_a_resumed_search_runs_only_the_remaining_sets() -> None:
    status, runs = ran(*GOOD, "--log", "whole.jsonl", "--output", "whole.yaml")
    lines = Path("whole.jsonl").read_text().splitlines(keepends=True)
    assert (status, len(lines)) == (0, runs + 1)
    for kept in (1, len(lines)):
        Path("part.jsonl").write_text("".join(lines[:kept]) + '["12')  # a killed process ends within a line
        Path("runs.txt").write_text("")
        again = ["--resume", "--log", "part.jsonl", "--output", f"{kept}.yaml", "--", sys.executable, "program.py"]
        assert main(["bisect", *GOOD, *again]) == 0
        assert len(Path("runs.txt").read_text().splitlines()) == len(lines) - kept
        assert len(Path("part.jsonl").read_text().splitlines()) == len(lines)
        assert Policy.load(f"{kept}.yaml") == Policy.load("whole.yaml")


def test_the_log_of_another_search_raises(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules.yaml").write_text("ops: {linear: fp32}")
    assert ran("--good", "rules.yaml")[0] == 0
    resume = ["bisect", "--resume", "--good", "rules.yaml", "--"]
    capsys.readouterr()
    assert main([*resume, "python", "program.py"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: polycast-bisect.jsonl is the log of another search: "
        f"command is {shlex.quote(sys.executable)} program.py there and python program.py here"
    )
    Path("rules.yaml").write_text("ops: {matmul: fp32}")
    assert main([*resume, sys.executable, "program.py"]) == 2
    assert "the log of another search: the digest of good is " in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_an_interrupted_search_can_be_resumed(number: signal.Signals) -> None:
    slow = ONE.replace("sys.exit", "time.sleep(60 if len(open('runs.txt').readlines()) == 4 else 0)\nsys.exit")
    Path("program.py").write_text(slow)
    command = [sys.executable, "-m", "polycast", "bisect", *GOOD, "--", sys.executable, "program.py"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not Path("runs.txt").exists() or len(Path("runs.txt").read_text().splitlines()) < 4:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        said = process.communicate()[1]
    with contextlib.suppress(ProcessLookupError):  # only a search that is killed leaves its program behind
        os.kill(int(Path("runs.txt").read_text().split()[-1]), signal.SIGKILL)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert said.splitlines()[-1] == "to continue, repeat the command with --resume"
    assert main(["bisect", "--resume", *command[4:]]) == 0
    assert [*Policy.load("polycast-bisect.yaml")] == ["linear"]
