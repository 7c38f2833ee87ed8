"""`polycast bisect`: what it prints and writes, how it goes on, and its errors."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from polycast.command_line.commands import main
from polycast.policy.plan import Plan
from polycast.policy.policy import Policy

# A program that imports no torch: it reads its rules from the file, and writes its calls as polycast does.
PROGRAM = """
import json, os, sys, time
calls = [("Net", "a", "linear"), ("Net", "a", "matmul"), ("Net", "b", "linear"), ("Net", "b.c", "linear")]
if "POLYCAST_CALLS" in os.environ:
    with open(f"{os.environ['POLYCAST_CALLS']}/1.json", "w") as file:
        json.dump([(*call, "cpu") for call in calls], file)
import yaml
with open(os.environ["POLYCAST_POLICY"]) as file:
    rules = yaml.safe_load(file)

def category(place, op):
    names = place.split(".")
    given = [rules.get("models", {}).get("Net", {}).get(".".join(names[:n]), {}) for n in range(len(names), -1, -1)]
    held = next((rules[op] for rules in [*given, rules.get("ops", {})] if op in rules), "lower_precision_fp")
    for key in "as", "cpu", "as":
        held = held.get(key, held) if isinstance(held, dict) else held
    return held if isinstance(held, str) else "lower_precision_fp"

with open("runs.txt", "a") as file:
    file.write(f"{os.getpid()}\\n")
print("the loss is", sum(category(place, op) != "fp32" for _, place, op in calls))
sys.stdout.flush()
"""
# It is bad with linear in b.c as in built-in.
ONE = PROGRAM + "sys.exit(category('b.c', 'linear') != 'fp32')\n"


def ran(*words: str, program: str = ONE) -> tuple[int, int]:
    """Run bisect on a program; return its status, and how often the program ran."""
    Path("program.py").write_text(program)
    Path("runs.txt").write_text("")
    status = main(["bisect", *words, "--", sys.executable, "program.py"])
    return status, len(Path("runs.txt").read_text().splitlines())


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_prints_a_table_and_writes_rules_that_make_the_command_good(capsys: pytest.CaptureFixture[str]) -> None:
    status, runs = ran()
    out, err = capsys.readouterr()
    assert status == 0
    assert out.splitlines() == [
        "op      module   device  good  bad",
        "linear  Net.b.c  cpu     fp32  lower_precision_fp",
        "",
        f"{runs} runs for 4 rules that differ, whose log2 is 2.0.",
        "With these rules as in good, the last run was good.",
        "The rules are in polycast-bisect.yaml: "
        f"POLYCAST_POLICY=polycast-bisect.yaml {shlex.quote(sys.executable)} program.py",
    ]
    assert len(err.splitlines()) == runs
    written = Plan.load("polycast-bisect.yaml")
    assert written == Plan(models={"Net": {"b.c": Policy({"linear": {"cpu": "fp32"}})}})
    assert "bad as lower_precision_fp" in Path("polycast-bisect.yaml").read_text()


def test_rules_that_fail_only_together_are_named_together(capsys: pytest.CaptureFixture[str]) -> None:
    pair = "sys.exit(category('a', 'matmul') != 'fp32' and category('b', 'linear') != 'fp32')\n"
    assert ran("--output", "mine.yaml", program=PROGRAM + pair)[0] == 0
    out = capsys.readouterr().out
    assert "linear  Net.b   cpu     fp32  lower_precision_fp\nmatmul  Net.a   cpu" in out
    assert "linear in Net.b and matmul in Net.a fail only together." in out
    # The module within Net.b keeps its own rule.
    linear = {name: rules.category("linear", "cpu") for name, rules in Plan.load("mine.yaml").models["Net"].items()}
    assert linear == {"b": "fp32", "b.c": "lower_precision_fp"}
    assert [*Plan.load("mine.yaml").ops] == ["matmul"]  # which is called at one place alone


EXIT = "sys.exit({})\n".format
ERRORS = {
    "a good that is bad": (
        [],
        PROGRAM + EXIT("3"),
        '"good" is bad: status 3; its last lines:\n  the loss is 0\n',
    ),
    "a bad that is good": (
        [],
        PROGRAM + EXIT("0"),
        '"bad" is good; it must fail there (if it fails only sometimes, run each plan more often: repeat=12 or '
        "--repeat 12): status 0; "
        "its last lines:\n  the loss is 4\n",
    ),
    "ends that do the same": (
        ["--good", "built-in"],
        PROGRAM,
        '"good" and "bad" are the same policy; give two that differ\n',
    ),
    "rules for modules that nobody calls": (
        ["--good", "MODULES"],
        PROGRAM + EXIT("'models' not in rules"),
        '"good" and "bad" have different rules for modules alone, and the calls of none were seen\n',
    ),
    "an end that cannot be tested": (
        [],
        PROGRAM + EXIT("125"),
        '"good" cannot be tested: status 125; its last lines:\n  the loss is 0\n',
    ),
    "a run that was killed": (
        [],
        PROGRAM + "if category('b', 'linear') != 'fp32': os.abort()\n",
        "a run under bad was killed; --killed-is-bad takes that for bad: status 134; its last lines:\n"
        "  the loss is 4\n",
    ),
    "a program without polycast": (
        [],
        "print('hello')\n",
        "the command did not import polycast, so it read no rules; let the program import it: status 0; "
        "its last lines:\n  hello\n",
    ),
    "a silent program": (
        [],
        "raise SystemExit(7)",
        "the command did not import polycast, so it read no rules; let the program import it: status 7",
    ),
    "something else than rules": (
        [],
        PROGRAM + EXIT("len(open('runs.txt').readlines()) > 1"),
        "with all rules of ops as in good, it is not good: status 1; its last lines:\n  the loss is 0\n"
        "The program must be the same each time, and obey the rules of the process.\n",
    ),
    "no number of runs": (["--repeat", "0"], PROGRAM, "each plan is to run 0 times; give 1 or more\n"),
    "an unknown policy": (
        ["--good", "fp23"],
        PROGRAM,
        "unknown category, release or file 'fp23'; did you mean 'fp32'?\n",
    ),
    "the built-in policy, mistyped": (
        ["--bad", "builtin"],
        PROGRAM,
        "there is no policy 'builtin'; did you mean 'built-in'?\n",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_searched_is_an_error(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, program, message = ERRORS[name]
    Path("modules.yaml").write_text("models: {Net: {d: {linear: fp32}}}")
    assert ran(*(word.replace("MODULES", "modules.yaml") for word in words), program=program)[0] == 2
    assert capsys.readouterr().err.partition("error: ")[2].startswith(message)
    assert [*Path().glob("polycast-bisect.*")] == []


WORDS = {
    (): "usage: polycast bisect [OPTIONS] -- COMMAND...",
    ("--repeat", "3"): "there is no command; write it behind --, as in: polycast bisect -- python train.py",
    ("--godo", "fp32", "--", "true"): "unrecognized arguments: --godo; did you mean '--good'?",
    ("--output", "there.yaml", "--good", "fp23", "--", "true"): "did you mean 'fp32'?",
    ("--repeat", "many", "--", "true"): "argument --repeat: invalid int value: 'many'",
    ("--", "no-such-program"): "error: 'no-such-program' cannot be run: no such file or directory",
    ("no-such-program",): "error: 'no-such-program' cannot be run: no such file or directory",
    (
        "--output",
        "there.yaml",
        "--",
        "true",
    ): "error: there is there.yaml already; remove what is there, or name other files with --output\n",
    (
        "--log",
        "there.yaml",
        "--",
        "true",
    ): "error: there is there.yaml already; remove what is there, or name other files with --log, "
    "or go on with the search: polycast bisect --resume there.yaml",
    (
        "--output",
        "there.yaml",
        "--log",
        "there.jsonl",
        "--",
        "true",
    ): "error: there is there.yaml and there.jsonl already; remove what is there, or name other files with "
    "--output and --log\n",
    ("--output", ".", "--", "true"): "error: . is a folder",
    ("--output", "new", "--log", "./new", "--", "true"): "error: new cannot have both the log and the rules; name",
    ("--resume", "no.jsonl"): "error: no.jsonl cannot be read: no such file or directory",
    ("--resume", "."): "error: . cannot be read: is a directory",
    ("--resume", "there.yaml"): "error: there.yaml is no log of polycast bisect; name one that it wrote",
    ("--resume", "there.yaml", "--log", "other"): "--resume goes on in the log that it names; leave --log out",
}


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_wrong_words_are_an_error(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("there.yaml", "there.jsonl"):
        Path(name).write_text("ops: {softmax: fp32}")
    assert main(["bisect", *words]) == 2
    assert WORDS[words] in capsys.readouterr().err
    assert Path("there.yaml").read_text() == "ops: {softmax: fp32}"
    assert [*Path().glob("polycast-bisect.*")] == []


def test_killed_can_be_bad() -> None:
    program = PROGRAM + "if category('b', 'linear') != 'fp32': os.abort()\n"
    assert ran("--killed-is-bad", program=program)[0] == 0
    assert [*Plan.load("polycast-bisect.yaml").models["Net"]] == ["b", "b.c"]


def test_a_command_that_fails_only_sometimes_is_run_repeatedly() -> None:
    # It fails each third time.
    program = PROGRAM + "count = len(open('runs.txt').readlines())\n"
    program += EXIT("category('b.c', 'linear') != 'fp32' and count % 3 == 0")
    assert ran("--repeat", "3", program=program)[0] == 0
    assert [*Plan.load("polycast-bisect.yaml").models["Net"]] == ["b.c"]


def test_without_its_calls_all_ops_are_searched() -> None:
    for seen in ("[]", "calls[1:2]"):
        program = PROGRAM.replace("for call in calls]", f"for call in {seen}]")
        assert ran("--log", f"{seen}.jsonl", program=program + EXIT("category('b.c', 'linear') != 'fp32'"))[0] == 0
        assert [*Plan.load("polycast-bisect.yaml").ops] == ["linear"]
        Path("polycast-bisect.yaml").unlink()


def test_a_resumed_search_runs_only_what_is_left() -> None:
    status, runs = ran("--log", "whole.jsonl", "--output", "whole.yaml")
    lines = Path("whole.jsonl").read_text().splitlines(keepends=True)
    assert (status, len(lines)) == (0, runs + 1)
    for kept in (1, 4, len(lines)):
        Path("part.jsonl").write_text("".join(lines[:kept]) + '{"plan": "12')  # a killed process ends within a line
        Path("runs.txt").write_text("")
        assert main(["bisect", "--resume", "part.jsonl", "--output", f"{kept}.yaml"]) == 0
        assert len(Path("runs.txt").read_text().splitlines()) == len(lines) - kept
        assert len(Path("part.jsonl").read_text().splitlines()) == len(lines)
        assert Plan.load(f"{kept}.yaml") == Plan.load("whole.yaml")


def test_a_log_of_another_search_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules.yaml").write_text("ops: {linear: fp32}")
    assert ran("--good", "rules.yaml")[0] == 0
    resume = ["bisect", "--resume", "polycast-bisect.jsonl", "--output", "other.yaml"]
    capsys.readouterr()
    assert main([*resume, "--bad", "torch-2.11", "--", "python", "program.py"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: polycast-bisect.jsonl is the log of another search: bad is built-in there and torch-2.11 here; "
        f"command is {shlex.quote(sys.executable)} program.py there and python program.py here; "
    )
    Path("rules.yaml").write_text("ops: {matmul: fp32}")
    assert main(resume) == 2
    assert "the log of another search: the digest of good is " in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_search_that_is_ended_can_be_resumed(number: signal.Signals) -> None:
    Path("program.py").write_text(ONE + "\n")
    slow = ONE.replace("sys.exit", "time.sleep(60 if len(open('runs.txt').readlines()) == 4 else 0)\nsys.exit")
    Path("program.py").write_text(slow)
    command = [sys.executable, "-m", "polycast", "bisect", "--", sys.executable, "program.py"]
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
        assert said.splitlines()[-1] == "to go on: polycast bisect --resume polycast-bisect.jsonl"
    assert main(["bisect", "--resume", "polycast-bisect.jsonl"]) == 0
    assert [*Plan.load("polycast-bisect.yaml").models["Net"]] == ["b.c"]


REAL = """
import sys, torch, polycast
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.b(self.a(x) * 0)
with polycast.autocast("cpu", torch.float16):
    result = Net()(torch.full((1, 4), 1e6))
print(result)
sys.exit(not result.isfinite().all())
"""


def test_a_real_program_tells_its_calls_and_takes_rules_for_its_modules(capsys: pytest.CaptureFixture[str]) -> None:
    Path("real.py").write_text(REAL)
    assert main(["bisect", sys.executable, "real.py"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["linear", "Net.a", "cpu", "fp32", "lower_precision_fp"]
