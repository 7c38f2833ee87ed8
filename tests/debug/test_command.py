"""A user's command under a policy: its status, its output, and how it is ended."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polycast
import pytest
from polycast.debug.command import last_lines, run


def test_both_outputs_are_kept_and_there_is_no_input_also_in_a_thread(tmp_path: Path) -> None:
    """The tests of `polycast bisect` show that it has the policy, and its status."""
    command = ["sh", "-c", "echo out; echo wrong >&2; cat; kill -KILL $$"]
    with ThreadPoolExecutor(1) as other:
        done = other.submit(run, command, polycast.Policy(), tmp_path / "out").result()
    assert done.status == 137 and done.seconds > 0
    assert last_lines(tmp_path / "out") == ["out", "wrong"]


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


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
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
    start = time.perf_counter()
    run(["sh", "-c", "sleep 60 & echo $!"], polycast.Policy(), tmp_path / "out")
    assert time.perf_counter() - start < 30
    os.kill(int(last_lines(tmp_path / "out")[0]), signal.SIGKILL)
