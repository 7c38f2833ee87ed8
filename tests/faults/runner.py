"""Plants faults in a copy of the source tree, one after the other, and runs tests there until one fails.

The tests of a fault run in a fork of a process that has imported what they need but polycast, which saves seconds.
"""

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from multiprocessing.queues import Queue
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.planted import ROOT, Fault
from tests.faults.selection import LEFT_OUT, Recording, environment

IMPORTED = (
    "torch",
    "torch._dynamo",
    "torch.testing._internal.common_utils",
    "torch_xla",
    "hypothesis",
    "numpy",
    "yaml",
)
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
COMPILED = ("csrc/", "policy.yaml", "codegen/templates/autocast/")


class Outcome(NamedTuple):
    """What became of a fault: the first test that fails, ``the build``, or nothing."""

    fault: Fault
    caught_by: str
    seconds: float
    tests: int


def make_copy(copy: Path) -> None:
    """Copy what git tracks, with files that are new, and build polycast in place there."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in listed.stdout.decode().splitlines():
        source, target = ROOT / name, copy / name
        if source.is_file() and not (target.exists() and target.read_bytes() == source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    build(copy)


def build(copy: Path) -> bool:
    """Build in place, and return whether that succeeds. It compiles what changed."""
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=copy, env=environment(copy), capture_output=True, check=False)
    return done.returncode == 0


class Runner:
    """One copy, and this process, whose forks run tests in it."""

    def __init__(self, copy: Path, recording: Recording, limit: float) -> None:
        self.copy, self.recording, self.limit = copy, recording, limit

    def run(self, fault: Fault) -> Outcome:
        """Plant one fault, build if it is compiled, run its tests, and restore the file."""
        path, start = self.copy / fault.file, time.monotonic()
        original, is_compiled = path.read_bytes(), fault.file.startswith(COMPILED)
        tests = self.recording.tests_of(fault, self.limit)
        try:
            path.write_text(fault.text, encoding="utf-8")
            caught = self._test(tests) if not is_compiled or build(self.copy) else "the build"
        finally:
            path.write_bytes(original)
            if is_compiled:
                build(self.copy)
        return Outcome(fault, caught, time.monotonic() - start, len(tests))

    def _test(self, tests: list[str]) -> str:
        """Return the name of the first test that fails, in a process that ends at the limit."""
        log = self.copy / "build" / "log.txt"
        child = os.fork()
        if child == 0:
            os.setsid()
            with log.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "polycast", "codegen")]:
                del sys.modules[name]  # the copy's own are imported
            options = ["-q", "-x", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
            options += ["-W", "ignore:Module already imported"]
            status = 1
            try:
                status = int(pytest.main([*options, *(f"--deselect={path}" for path in LEFT_OUT), *tests]))
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        status, deadline = 0, time.monotonic() + self.limit
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.05)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if ended == (0, 0):
            os.waitpid(child, 0)
            return ""  # not within the limit
        status = os.waitstatus_to_exitcode(ended[1])
        if status == 0:
            return ""
        found = FAILED.search(log.read_text(encoding="utf-8", errors="replace"))
        return found[1] if found else f"pytest ended with {status}"


_runner: Runner


def begin(numbers: "Queue[int]", folder: Path, limit: float) -> None:
    """Become the process that runs faults in a copy: the next one of ``numbers``."""
    global _runner
    copy = folder / f"copy-{numbers.get()}"
    make_copy(copy)
    os.environ.update(environment(copy))
    os.chdir(copy)
    sys.path[:0] = [str(copy / "python"), str(copy)]
    for name in IMPORTED:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    _runner = Runner(copy, Recording(folder / "recording"), limit)


def run(fault: Fault) -> Outcome:
    """Run a fault in this process's copy."""
    return _runner.run(fault)
