"""`python -m polycast trace` runs a script as it is, and prints at its end what autocasting did."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import torch
if __name__ == "__main__":
    layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with torch.autocast("cpu", torch.bfloat16):
        layer(x)
    print(sys.argv[1:], sys.path[0] == sys.argv[0].rpartition("/")[0])
    sys.exit(3)
"""


def traced(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "polycast", "trace", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def test_a_script_runs_with_its_arguments_and_its_status_and_is_summed_up(script: str) -> None:
    done = traced(script, "--lr", "3")
    assert (done.stdout, done.returncode) == ("['--lr', '3'] True\n", 3)
    assert "linear  lower_precision_fp  1      3" in done.stderr
    assert "Linear  linear  0  lower_precision_fp" in traced("--table", script).stderr


def test_lines_alone_are_printed(script: str) -> None:
    assert f"{script}:7\n" in traced("--lines", script).stderr


def test_an_error_of_the_script_is_all_that_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("def fail():\n    raise ValueError('mine')\ntry:\n    fail()\nexcept ValueError:\n    1 / 0\n")
    alone = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    done = traced(str(path))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", alone.stderr)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def", "SyntaxError: "),
        ("\0", "null bytes"),
        ("raise SystemExit('no')", "\nno\n"),
        ("import sys; sys.exit()", ""),
    ],
)
def test_what_cannot_run_ends_as_python_ends_it(code: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(code)
    alone = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    done = traced(str(path))
    assert done.returncode == alone.returncode
    assert said in done.stderr and "Traceback" not in done.stderr


def test_an_interrupted_script_is_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.replace("sys.exit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"))
    done = traced(str(path))
    assert done.returncode == 130
    assert "interrupted; until then:\n\nop " in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--limit", "0", __file__), "the limit is 0"),
        (("-m", "no_such_module"), "there is no module 'no_such_module'"),
        (("-m", __file__), f"'{__file__}' is a script; leave -m out, which is for the name of a module"),
        (("--table",), "the following arguments are required: script\n"),
    ],
)
def test_what_would_fail_at_the_end_fails_before(arguments: tuple[str, ...], text: str) -> None:
    done = traced(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr


def test_a_script_that_is_not_there_is_named() -> None:
    done = traced("scirpt.py")
    assert done.stderr == "error: there is no script 'scirpt.py'; with -m it would be a module\n"
    assert done.returncode == 2
