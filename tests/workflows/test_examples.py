"""Runs of the programs in ``examples/``, except for ``digits.py`` and ``integrations/``."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest
import torch

from tests.support.process import printed_by
from tests.support.snippets import ROOT, missing, page

FOLDER = ROOT / "examples"
NAMES = sorted(path.name for path in FOLDER.glob("*.py"))
# Each example runs with these options. `make demo` runs `digits.py`, which takes longer. `resume.py` has its own test.
OPTIONS: dict[str, list[str]] = {
    **{name: [] for name in NAMES if name not in ("digits.py", "resume.py")},
    "custom_op.py": ["--steps", "2"],
    "language_model.py": ["--steps", "3", "--output", "language_model.png"],
    "lora.py": ["--steps", "3", "--width", "64", "--output", "lora.png"],
    "resnet.py": ["--steps", "2", "--output", "resnet.png"],
}
# Each program uses one thread, because several tests run at the same time.
PLAIN = {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the examples run."""
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module")
def printed(folder: Path) -> dict[str, list[str] | str]:
    """Return the output or the error of each example whose packages are installed."""
    programs = {}
    for name, options in OPTIONS.items():
        source = page(f"examples/{name}")
        if not missing([source]):
            start = f"import os, sys\nos.chdir({str(folder)!r})\nsys.argv = {[name, *options]!r}"
            programs[name] = [start, source]
    return printed_by(programs, **PLAIN)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_example_runs(name: str, printed: dict[str, list[str] | str], folder: Path) -> None:
    if lacking := missing([page(f"examples/{name}")]):
        pytest.skip(f"{name} needs {', '.join(lacking)}")
    assert isinstance(printed[name], list), printed[name]
    assert printed[name][-1]
    for picture in (option for option in OPTIONS[name] if option.endswith(".png")):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits.py"])
def test_an_example_is_short_and_listed_in_the_index(name: str) -> None:
    assert len(page(f"examples/{name}").splitlines()) <= 75
    assert f"]({name})" in page("examples/README.md")


def start(*options: str) -> "subprocess.Popen[str]":
    """Start ``resume.py`` with these options, and return its process."""
    environment = {**os.environ, **PLAIN, "PYTHONWARNINGS": "error,ignore:Failed to initialize NumPy"}
    command, pipe = [sys.executable, "resume.py", *options], subprocess.PIPE
    return subprocess.Popen(command, cwd=FOLDER, env=environment, stdout=pipe, stderr=pipe, text=True)


def end(process: "subprocess.Popen[str]") -> str:
    """Wait for the example, and return its output."""
    printed, errors = process.communicate()
    assert (process.returncode, errors) == (0, ""), errors
    return printed


@pytest.mark.skipif(bool(missing([page("examples/resume.py")])), reason="resume.py needs matplotlib and tqdm")
def test_a_killed_training_run_resumes_bit_for_bit(tmp_path: Path) -> None:
    def options(name: str) -> list[str]:
        place = tmp_path / name
        return ["--steps", "400", "--every", "20", "--checkpoint", f"{place}.pt", "--output", f"{place}.png"]

    killed, undisturbed = start(*options("killed")), start(*options("whole"))
    while not (tmp_path / "killed.pt").exists() and killed.poll() is None:
        sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    done = len(torch.load(tmp_path / "killed.pt")["losses"])
    again, whole = end(start(*options("killed"))), end(undisturbed)
    assert 0 < done < 400
    assert again == f"goes on after step {done}\n{whole}"
    first, second = (torch.load(tmp_path / f"{name}.pt") for name in ("whole", "killed"))
    assert (first.pop("starts"), second.pop("starts")) == ([], [done])
    torch.testing.assert_close(second, first, rtol=0, atol=0)
