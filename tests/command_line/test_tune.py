"""`polycast tune`: a command is tuned and its file verified; what is wrong with either is said."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from polycast.command_line.commands import main
from polycast.debug.tuning import proof, tuning
from polycast.debug.tuning.command import LOSS, Command
from polycast.debug.tuning.evidence import Evidence
from polycast.debug.tuning.propose import Candidate
from polycast.debug.tuning.tuned import facts_of
from polycast.policy.plan import Plan

from tests.support.snippets import ROOT

# Reads the plan as text, since the import of polycast takes seconds. A rule for gelu makes it fast, one for mish bad.
PROGRAM = """
    import os, sys, time
    rules = open(os.environ["POLYCAST_POLICY"]).read()
    seed, *arguments = sys.argv[1:]
    for step in range(5):
        time.sleep(0.004 if "gelu:" in rules and len(rules) < 500 else 0.02)
        print(f"step {step}, loss: {'nan' if 'mish:' in rules and len(rules) < 500 else 1 + 0.1 * int(seed)}")
    sys.exit(*map(int, arguments))
"""
TUNED = str(ROOT / "examples" / "tuned" / "characters-cpu.yaml")
FAST = Plan({"gelu": {"cpu": "fp32"}})
BAD = Plan({"gelu": {"cpu": "fp32"}, "mish": {"cpu": "fp32"}})


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command, whose evidence speaks for a bad plan and a fast one."""
    script = tmp_path / "train.py"
    script.write_text(dedent(PROGRAM))
    found = Evidence("Net", "", "gelu", "cpu", 3, 8.0, 0.25, 0.0, 0.0, 0.0, 0.0, {"fp32": 1e-3}, {})
    monkeypatch.setattr(Command, "evidence", lambda *_: [found])
    plans = [Candidate(BAD, "gelu and mish in float32"), Candidate(FAST, "gelu in float32")]
    monkeypatch.setattr(tuning, "propose", lambda *_: plans)
    monkeypatch.setattr(proof, "ROUNDS", 3)
    monkeypatch.chdir(tmp_path)
    return [sys.executable, "-S", str(script), "{seed}"]


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def run(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(["tune", *words])
    return status, *capsys.readouterr()


def test_a_command_is_tuned_and_its_file_verified(program: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(["--seeds", "2", "--budget", "5min", "--", *program], capsys)
    assert (status, out.partition("\n")[0]) == (0, "tuned: plan 2"), out
    assert "plan 1 (gelu and mish in float32): the loss of seed 0 is nan at step 0" in err
    assert "tuned.yaml has the rules; use them by POLYCAST_POLICY=tuned.yaml" in err
    facts = facts_of("tuned.yaml")
    assert Plan.load("tuned.yaml") == FAST
    assert facts["command"] == " ".join(program)
    assert facts["final losses"]["tuned"] == [1.0, 1.1]
    assert facts["ms a step"]["of"] == "from one loss to the next"

    status, out, _ = run(["--verify", "tuned.yaml", "--", *program], capsys)
    assert (status, out.partition("\n")[0]) == (0, "the promise holds")

    path = Path("tuned.yaml")
    path.write_text(path.read_text().replace("gelu:", "mish:"))
    status, out, _ = run(["--verify", "tuned.yaml", "--", *program], capsys)
    assert status == 1
    assert out.startswith("the promise is broken: the loss of seed 0 is nan at step 0\n")
    assert "\nmish, cpu is not called\n" in out


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        ("loss 0.125", "0.125"),
        ("epoch 3 | Loss: 2e-3 | lr 0.1", "2e-3"),
        ("step=3 loss=1", "1"),
        ("{'loss': 0.5, 'grad_norm': 2.0}", "0.5"),
        ("loss nan", "nan"),
        ("loss: -inf", "-inf"),
        ("eval_loss: 0.5", None),
        ("the loss of time", None),
    ],
)
def test_lines_with_a_loss(line: str, loss: str | None) -> None:
    found = re.search(LOSS, line, re.IGNORECASE)
    assert (found and found[1]) == loss


@pytest.mark.parametrize(
    ("options", "extra", "error"),
    [
        ([], None, "tune needs a command, as in: polycast tune -- python train.py --seed {seed}"),
        (["--loss", "("], [], "--loss '(' is no regular expression: missing ), unterminated subpattern at position 0"),
        (["--loss", "loss"], [], "--loss 'loss' has no group; put the number into ( )"),
        (["--loss", "(step)"], [], "the command printed 'step' as a loss, which is no number"),
        (
            ["--loss", "(cost)"],
            [],
            "the standard output of the command has no loss that '(cost)' finds; let it print lines such as",
        ),
        (["--budget", "soon"], [], "the budget is 'soon'; give seconds, or text such as '90s', '10min' or '1h'"),
        (["--steps", "0"], [], "--steps 0 counts no loss; give 1 or more"),
        (["--tolerance", "nan"], [], "the tolerance is nan; give how many times the spread"),
        (["--verify", TUNED, "--budget", "9s"], [], "--verify has no budget: it takes what its runs take"),
        (["--seeds", "0"], [], "there are no seeds; give one for each run"),
        (["--dtype", "float64"], [], "the dtype is float64; give a lower precision, float16 or bfloat16"),
        (["--output", "absent/tuned.yaml"], [], "there is no folder for absent/tuned.yaml"),
        (["--verify", "absent.yaml"], [], "absent.yaml cannot be read: no such file or directory"),
        ([], ["3"], "the command ended with exit status 3; its last lines: step 2, loss: 1.0 | step 3, loss: 1.0 |"),
    ],
)
def test_what_is_wrong_is_said(
    options: list[str], extra: list[str] | None, error: str, program: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [] if extra is None else ["--", *program, *extra]
    assert main(["tune", *(options or ["--tolerance", "1"]), *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and f"error: {error}" in err, err
    assert not Path("tuned.yaml").exists()


def test_a_command_without_a_seed_runs_with_one(program: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command = [*program[:-1], "0"]
    status, _, err = run(["--", *command], capsys)
    assert status == 2
    assert err.startswith("error: the command has no {seed}, so all its runs would be the same; put it where")
    assert run(["--seeds", "1", "--", *command], capsys)[0] == 0


def test_the_first_losses_alone_count(program: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--seeds", "1", "--steps", "3", "--", *program], capsys)[0] == 0
    assert facts_of("tuned.yaml")["steps"] == 3


def test_losses_that_come_at_once_are_timed_by_the_whole(
    program: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Python that ignores PYTHONUNBUFFERED prints all lines at its end."""
    assert run(["--seeds", "1", "--", program[0], "-E", *program[1:]], capsys)[0] == 0
    facts = facts_of("tuned.yaml")
    assert facts["ms a step"]["of"] == "the whole command, as its losses come at once"
    assert facts["ms a step"]["float32"] > 20


def test_a_command_gathers_its_evidence_itself(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        dedent("""
        import sys, torch, polycast
        weight = torch.ones(2, 2, requires_grad=True)
        optimizer = torch.optim.SGD([weight])
        for step in range(100):
            with torch.autocast("cpu"):
                loss = torch.mm(weight, torch.ones(2, 2)).sum()
            loss.backward()
            optimizer.step()
            assert step < 3, "the evidence is of three steps"
        """)
    )
    found = Command([sys.executable, str(script)]).evidence(0, torch.bfloat16)
    assert [(one.model, one.op, one.device, one.calls) for one in found if one.op == "mm"] == [("", "mm", "cpu", 3)]
    with pytest.raises(ValueError, match="did not import polycast; give the training script itself"):
        Command(["true"]).evidence(0, torch.bfloat16)
    launcher = f"import polycast, subprocess, sys; subprocess.run([sys.executable, {str(script)!r}])"
    with pytest.raises(ValueError, match="calls no op that autocasting meets; give the training script itself"):
        Command([sys.executable, "-c", launcher]).evidence(0, torch.bfloat16)


def test_a_forked_process_gathers_evidence(tmp_path: Path) -> None:
    """It takes the steps, and does not end as a whole program does."""
    script = tmp_path / "train.py"
    script.write_text(
        dedent("""
        import multiprocessing, torch, polycast

        def train():
            weight = torch.ones(2, 2, requires_grad=True)
            optimizer = torch.optim.SGD([weight])
            for step in range(100):
                with torch.autocast("cpu"):
                    loss = torch.mm(weight, torch.ones(2, 2)).sum()
                loss.backward()
                optimizer.step()

        torch.set_num_threads(1)
        torch.ones(2).cos()
        process = multiprocessing.get_context("fork").Process(target=train)
        process.start()
        process.join()
        """)
    )
    found = Command([sys.executable, str(script)]).evidence(0, torch.bfloat16)
    assert [(one.op, one.calls) for one in found if one.op == "mm"] == [("mm", 3)]


def test_losses_of_a_progress_bar(tmp_path: Path) -> None:
    """It begins each line at the start of the last one."""
    script = tmp_path / "train.py"
    script.write_text("for step in range(3): print(f'step {step} loss {step}', end=chr(13))\n")
    assert Command([sys.executable, "-S", str(script)]).run(Plan(), 0).losses == (0.0, 1.0, 2.0)


def test_ctrl_c_in_a_shell_ends_the_command_and_writes_the_best(tmp_path: Path) -> None:
    """With the second seed the program waits."""
    script = tmp_path / "train.py"
    script.write_text(
        dedent("""
        import json, os, sys, time
        if evidence := os.environ.get("POLYCAST_EVIDENCE"):
            fields = {"model": "", "module": "", "op": "mm", "device": "cpu", "calls": 1, "largest": 1, "smallest": 1}
            fields |= {"overflow": 0, "flushed": 0, "error": 0, "rounding": 0, "casts": {}}
            seconds = {"fp32": 1, "lower_precision_fp": 1}
            open(evidence.partition(":")[2], "w").write(json.dumps([fields | {"seconds": seconds}]))
        print("loss 1.0", flush=True)
        if sys.argv[1] == "1":
            open("waits", "w").close()
            time.sleep(100)
        """)
    )
    words = [sys.executable, "-m", "polycast", "tune", "--", sys.executable, "-S", str(script), "{seed}"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "waits").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out.partition("\n")[0]) == (
        130,
        "float32: nothing else is proved; it was interrupted, so not all was tried",
    ), err
    assert Plan.load(tmp_path / "tuned.yaml") == Plan("fp32") | {"mm": {"cpu": "fp32"}}


def test_ctrl_c_writes_the_best_that_is_proved(
    program: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tuning, "propose", interrupted)
    status, out, _ = run(["--seeds", "1", "--", *program], capsys)
    assert status == 130
    assert re.match(r"(float32|built-in): nothing else is faster; it was interrupted, so not all was tried\n", out)
    assert Plan.load("tuned.yaml") in (Plan(), Plan("fp32"))


def test_ctrl_c_before_float32_has_run_is_said(
    program: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Command, "evidence", interrupted)
    status, out, err = run(["--seeds", "1", "--", *program], capsys)
    assert (status, out) == (130, "")
    assert err.endswith("interrupted before float32 had run: nothing is proved, and no file is written\n")
    assert not Path("tuned.yaml").exists()
