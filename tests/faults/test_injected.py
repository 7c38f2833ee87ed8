"""The faults in ``history/``, the mutants, the areas of tests, and the outcomes of runs of pytest."""

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.injected import MUTANTS, NOT_MUTATED, ROOT, history, mutants
from tests.faults.runner import outcome_of
from tests.faults.selection import AREAS, LEFT_OUT


def test_every_recorded_fault_applies() -> None:
    faults = history()
    assert len(faults) >= 60
    assert [name for name, number in Counter(fault.name for fault in faults).items() if number > 1] == []
    assert [fault.name for fault in faults if fault.text == (ROOT / fault.file).read_text(encoding="utf-8")] == []


def test_mutants_are_drawn_from_each_folder() -> None:
    faults = mutants()
    drawn = Counter(next(folder for folder, _ in MUTANTS if fault.file.startswith(folder)) for fault in faults)
    assert drawn == {"python/polycast": 120, "csrc": 25, "codegen": 25}
    assert [fault.name for fault in faults if Path(fault.file).name in NOT_MUTATED] == []


def test_areas_exist_in_the_tree() -> None:
    files = [path.relative_to(ROOT).as_posix() for folder, _ in MUTANTS for path in (ROOT / folder).rglob("*")]
    assert [start for start in AREAS if not any(file.startswith(start) for file in files)] == []
    tests = {*" ".join(AREAS.values()).split(), *LEFT_OUT}
    assert [test for test in sorted(tests) if not (ROOT / test).exists()] == []


@pytest.mark.parametrize(
    ("status", "log", "outcome"),
    [
        (0, "12 passed", ("survived", "")),
        (1, "FAILED tests/a.py::test_b[1] - AssertionError: x", ("caught", "tests/a.py::test_b[1]")),
        (1, "ERROR tests/a.py::test_b", ("caught", "tests/a.py::test_b")),
        (2, "ERROR tests/a.py - NameError: x", ("crash", "import of tests/a.py")),
        (4, "ERROR tests/a.py - NameError: x\nERROR: found no collectors", ("crash", "import of tests/a.py")),
        (4, "ImportError while loading conftest '/x/tests/conftest.py'.", ("crash", "import of conftest.py")),
        (-11, "...", ("crash", "signal 11")),
        (3, "INTERNALERROR> ...", ("not run", "pytest ended with 3")),
        (4, "ERROR: not found: tests/a.py::test_b", ("not run", "pytest ended with 4")),
        (5, "no tests ran", ("not run", "pytest ended with 5")),
    ],
)
def test_the_outcome_follows_from_status_and_output(status: int, log: str, outcome: tuple[str, str]) -> None:
    assert outcome_of(status, log) == outcome
