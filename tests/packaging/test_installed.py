"""The environment of ``make test TORCH=installed``, which has the packages of your Python and downloads nothing."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import torch

from tests.support.process import run_python

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "environments" / "installed.py"


def test_an_environment_has_the_packages_of_a_python_until_its_torch_changes(tmp_path: Path) -> None:
    made = run_python(SCRIPT, tmp_path)
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    code = "import sys, torch, yaml, pytest; print(sys.prefix, torch.__version__)"
    used = subprocess.run([tmp_path / "bin" / "python", "-c", code], capture_output=True, text=True)
    assert used.stdout.split() == [str(tmp_path), torch.__version__], used.stderr
    stamp, mark = tmp_path / "installed", tmp_path / "mark"
    mark.touch()
    run_python(SCRIPT, tmp_path)
    assert mark.exists()
    stamp.write_text(stamp.read_text(encoding="utf-8").replace(version("torch"), "2.0.0"), encoding="utf-8")
    run_python(SCRIPT, tmp_path)
    assert not mark.exists() and version("torch") in stamp.read_text(encoding="utf-8")


def test_missing_packages_are_named_in_one_line(tmp_path: Path) -> None:
    done = run_python("-S", SCRIPT, tmp_path)  # With `-S`, Python does not find installed packages.
    run = f"Run: {sys.executable} -m pip install torch 'setuptools>=77' jinja2 pyyaml"
    assert done.returncode == 1 and done.stderr.startswith(f"{sys.executable} lacks packages of polycast. {run}")
    assert len(done.stderr.splitlines()) == 1 and list(tmp_path.iterdir()) == []
