"""A user's command under a policy: its status, its output, and how it is ended."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import polycast
import pytest
from polycast.debug.command import last_lines, run

POLICY = polycast.Policy({"softmax": "fp32"})


def python(*lines: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(["import os, signal, sys, time", *lines])]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(125)", 125),
        ("raise ValueError('no')", 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("os.abort()", 134),
    ],
)
def test_its_status_is_that_of_a_shell(line: str, status: int, tmp_path: Path) -> None:
    assert run(python(line), POLICY, tmp_path / "out").status == status


def test_it_reads_the_policy_and_both_outputs_are_kept(tmp_path: Path) -> None:
    print_it = python(
        "print(open(os.environ['POLYCAST_POLICY']).read())",
        "print('wrong', file=sys.stderr)",
        "print(sys.stdin.read())",
    )
    assert run(print_it, POLICY, tmp_path / "out").seconds > 0
    assert sorted(filter(None, last_lines(tmp_path / "out"))) == ["  softmax: fp32", "ops:", "wrong"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-such-program", "'no-such-program' cannot be run: no such file or directory"),
        ("FOLDER", "'FOLDER' cannot be run: permission denied"),
        ("FOLDER/no.py", "'FOLDER/no.py' cannot be run: permission denied; to run a script: python FOLDER/no.py"),
    ],
)
def test_a_command_that_cannot_run_is_an_error(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "no.py").touch()
    name, message = (text.replace("FOLDER", str(tmp_path)) for text in (name, message))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        run([name], POLICY, tmp_path / "out")


FAMILY = """
import os, pathlib, subprocess, sys, time
if len(sys.argv) == 1:
    subprocess.Popen([sys.executable, __file__, "child"])
pathlib.Path(f"{os.getpid()}.pid").touch()
time.sleep(60)
"""
PARENT = """
import polycast, sys
from polycast.debug.command import run
try:
    run([sys.executable, "family.py"], polycast.Policy(), "out")
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_whole_group(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "family.py").write_text(FAMILY)
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=tmp_path) as parent:
        while len([*tmp_path.glob("*.pid")]) < 2:
            assert parent.poll() is None
            time.sleep(0.02)
        parent.send_signal(number)
        assert parent.wait(30) == 130
    for path in tmp_path.glob("*.pid"):
        assert not is_running(int(path.stem))


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_a_process_that_it_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 60 & echo $!"]
    start = time.perf_counter()
    run(command, POLICY, tmp_path / "out")
    assert time.perf_counter() - start < 30
    os.kill(int(last_lines(tmp_path / "out")[0]), signal.SIGKILL)


def test_it_runs_in_a_thread_and_leaves_the_handlers(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(run(["true"], POLICY, tmp_path / "out").status))
    thread.start()
    thread.join()
    found.append(run(["false"], POLICY, tmp_path / "out").status)
    assert found == [0, 1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
