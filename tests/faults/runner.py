"""Functions that inject a fault into a copy of the source tree, and run tests there until a test fails.

The tests run in a fork of a process that has imported PyTorch, so each fault saves the seconds of the import.
"""

import hashlib
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

from tests.faults.injected import ROOT, Fault
from tests.faults.selection import LEFT_OUT, environment

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
COMPILED = ("csrc/", "codegen/templates/autocast/")


class Outcome(NamedTuple):
    """The outcome of the tests of a fault."""

    result: str  # "caught", "crash", "survived", "timeout" or "not run".
    by: str  # The test that failed, or another cause of the result.
    seconds: float
    tests: int  # The number of selected tests, or of the folders and files of an area.


def sources() -> list[str]:
    """Return the files of the source tree: tracked files, and new files that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().splitlines()
    return sorted(name for name in listed if (ROOT / name).is_file())


def state() -> str:
    """Return a name for the contents of the source tree."""
    digests = [hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in sources()]
    return hashlib.sha256("".join([*sources(), *digests]).encode()).hexdigest()[:12]


def make_copy(copy: Path) -> None:
    """Copy the source tree, or update the copy, and build polycast in place there.

    Raises:
        RuntimeError: If the build fails.
    """
    names, listing = sources(), copy / "build" / "files.txt"
    listing.parent.mkdir(parents=True, exist_ok=True)
    for gone in set(listing.read_text().splitlines() if listing.exists() else ()).difference(names):
        (copy / gone).unlink(missing_ok=True)
    listing.write_text("\n".join(names))
    for name in names:
        source, target = ROOT / name, copy / name
        if not (target.exists() and target.read_bytes() == source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    if not build(copy):
        raise RuntimeError(f"{copy} does not build; run `{sys.executable} setup.py build_ext --inplace` there")


def build(copy: Path) -> bool:
    """Build the changed files in place, and return whether the build succeeds."""
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=copy, env=environment(copy), capture_output=True, check=False)
    return done.returncode == 0


def outcome_of(status: int, log: str) -> tuple[str, str]:
    """Return the result of a run of pytest, and its cause, such as the failed test."""
    found = FAILED.search(log)
    if status == pytest.ExitCode.OK:
        return "survived", ""
    if status == pytest.ExitCode.TESTS_FAILED and found:
        return "caught", found[1]
    # pytest ends with a usage error if the file of a selected test cannot be imported.
    if status in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR) and found:
        return "crash", f"import of {found[1]}"
    if "ImportError while loading conftest" in log:
        return "crash", "import of conftest.py"
    return ("crash", f"signal {-status}") if status < 0 else ("not run", f"pytest ended with {status}")


_copy: Path  # The copy of the tree in which this process's forks run tests.
_limit: float


def begin(numbers: "Queue[int]", folder: Path, limit: float) -> None:
    """Prepare this process to inject faults into a copy. The copy's number is the next in ``numbers``."""
    global _copy, _limit
    copy = folder / f"copy-{numbers.get()}"
    make_copy(copy)
    os.environ.update(environment(copy))
    os.chdir(copy)
    # A file with a fault may have the size and the time of the original, so Python would use the original's bytecode.
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(copy / "python"), str(copy)]
    for name in IMPORTED:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    _copy, _limit = copy, limit


def run(fault: Fault | None, tests: tuple[str, ...]) -> Outcome:
    """Run tests in this process's copy, with a fault unless it is None, and return the outcome."""
    start = time.monotonic()
    result, by = test(tests) if fault is None else test_with(fault, tests)
    return Outcome(result, by, time.monotonic() - start, len(tests))


def test_with(fault: Fault, tests: tuple[str, ...]) -> tuple[str, str]:
    """Inject a fault, build if its file is compiled, run the tests unless the build fails, and restore the file."""
    path, is_compiled = _copy / fault.file, fault.file.startswith(COMPILED)
    original = path.read_bytes()
    try:
        path.write_text(fault.text, encoding="utf-8")
        return test(tests) if not is_compiled or build(_copy) else ("caught", "the build")
    finally:
        path.write_bytes(original)
        if is_compiled:
            build(_copy)


def test(tests: tuple[str, ...]) -> tuple[str, str]:
    """Run tests in a fork until one fails or the time is over, and return the result and its cause."""
    log = _copy / "build" / "log.txt"
    child = os.fork()
    if child == 0:
        os.setsid()
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "polycast", "codegen")]:
            del sys.modules[name]  # The run imports the modules of the copy.
        options = ["-q", "-x", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
        options += ["-W", "ignore:Module already imported"]
        status = int(pytest.ExitCode.INTERNAL_ERROR)
        try:
            status = int(pytest.main([*options, *(f"--deselect={path}" for path in LEFT_OUT), *tests]))
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    deadline = time.monotonic() + 3 * _limit
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if ended == (0, 0):
        os.waitpid(child, 0)
        return "timeout", f"{3 * _limit:.0f} s"
    return outcome_of(os.waitstatus_to_exitcode(ended[1]), log.read_text(encoding="utf-8", errors="replace"))
