"""The selection of the tests for a fault: the tests that execute its line, with tests of its area first.

``record`` runs the suite once with coverage.py, and writes the lines and the duration of each test. A line that runs at
import, in another process or in C++ has no recorded test. For a fault in such a line, all tests of its area run.
"""

import os
import sqlite3
import subprocess
import sys
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import coverage
import pytest
import yaml

from tests.faults.injected import ROOT, Fault

AREAS: dict[str, str] = yaml.safe_load(Path(__file__).with_name("areas.yaml").read_text(encoding="utf-8"))
# These tests check environments and packages, not the code of polycast.
LEFT_OUT = ("tests/packaging/test_installed.py", "tests/packaging/test_package.py")
# The interrupts of this test can stop coverage.py while it has its lock, so the test is not recorded.
NOT_RECORDED = "tests/policies/test_regions.py::test_an_interrupt_leaves_no_region_open"
_recording: coverage.Coverage | None = None
_durations: dict[str, float] = {}


class Chosen(NamedTuple):
    """The tests of a fault."""

    tests: tuple[str, ...]
    are_recorded: bool  # False for the folders and files of an area.


def area(file: str) -> tuple[str, ...]:
    """Return the folders and files with the tests of a file's area."""
    return tuple(AREAS[max((start for start in AREAS if file.startswith(start)), key=len)].split())


def environment(copy: Path) -> dict[str, str]:
    """Return the environment of a process that imports polycast from a copy of the source tree."""
    return {**os.environ, "PYTHONPATH": f"{copy / 'python'}{os.pathsep}{copy}", "OMP_NUM_THREADS": "1"}


class Recording:
    """The lines and durations of the tests in one run of the suite, from a folder that ``record`` wrote."""

    def __init__(self, folder: Path) -> None:
        self._data = coverage.CoverageData(str(folder / "lines"))
        self._data.read()
        with sqlite3.connect(folder / "durations") as database:
            self.durations = dict(database.execute("select test, seconds from durations"))

    def tests_of(self, fault: Fault, seconds: float) -> Chosen:
        """Return a fault's recorded tests, up to a total of ``seconds`` but at least one, or the tests of its area."""
        wanted = area(fault.file)

        def order(test: str) -> tuple[int, float]:
            places = [place for place, start in enumerate(wanted) if test.startswith(start)]
            return (min(places, default=len(wanted)), self.durations[test])

        measured = next((file for file in self._data.measured_files() if file.endswith(f"/{fault.file}")), "")
        contexts = self._data.contexts_by_lineno(measured).get(fault.line, [])
        covering = sorted((test for test in contexts if test in self.durations), key=order)
        if not covering or not fault.file.endswith(".py"):
            return Chosen(wanted, are_recorded=False)
        totals = accumulate(map(self.durations.__getitem__, covering))
        chosen = [test for test, total in zip(covering, totals, strict=True) if test == covering[0] or total <= seconds]
        files = list(dict.fromkeys(test.partition("::")[0] for test in chosen))
        # Tests of a file run together, so that pytest sets up the fixtures of the file once.
        ordered = sorted(chosen, key=lambda test: files.index(test.partition("::")[0]))
        return Chosen(tuple(ordered), are_recorded=True)


def record(copy: Path, folder: Path, jobs: int) -> None:
    """Run the suite of a copy, and write the lines that each test executes, and the durations of passing tests."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.faults.selection", "-n", str(jobs)]
    command += ["--dist", "loadfile", "-p", "no:cacheprovider"]
    command += [f"--deselect={path}" for path in (*LEFT_OUT, NOT_RECORDED)]
    subprocess.run(command, cwd=copy, env=environment(copy) | {"FAULTS_RECORDING": str(folder)}, check=False)
    whole = coverage.Coverage(str(folder / "lines"), config_file=False)
    whole.combine([str(folder)])
    whole.save()


def pytest_configure() -> None:
    """Start to record lines if this process is a worker of pytest-xdist in a run of ``record``."""
    global _recording
    worker, folder = os.environ.get("PYTEST_XDIST_WORKER"), os.environ.get("FAULTS_RECORDING")
    if worker and folder:
        sources = [str(ROOT / "python" / "polycast"), str(ROOT / "codegen")]
        _recording = coverage.Coverage(f"{folder}/lines.{worker}", source=sources, config_file=False, messages=False)
        _recording.start()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record the lines that run from now on as lines of this test."""
    if _recording is not None:
        _recording.switch_context(item.nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the duration of a phase to the duration of its test, or remove a test that fails or is skipped."""
    if report.failed or report.skipped:
        _durations.pop(report.nodeid, None)
    elif report.when == "setup" or report.nodeid in _durations:
        _durations[report.nodeid] = _durations.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish() -> None:
    """Write the recording: the lines in each worker, and the durations in the main process."""
    if _recording is not None:
        _recording.stop()
        _recording.save()
    elif folder := os.environ.get("FAULTS_RECORDING"):
        with sqlite3.connect(f"{folder}/durations") as database:
            database.execute("create table durations (test text primary key, seconds real)")
            database.executemany("insert into durations values (?, ?)", _durations.items())
