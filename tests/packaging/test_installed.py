"""`make test TORCH=installed`: the packages that the machine has, and nothing else."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "environments" / "installed.py"


def environment(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *options, SCRIPT, folder], capture_output=True, text=True)


def test_an_environment_has_the_packages_of_a_python_in_a_virtual_environment(tmp_path: Path) -> None:
    made = environment(tmp_path)
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    code = "import sys, torch, yaml, pytest; print(sys.prefix, torch.__version__)"
    used = subprocess.run([tmp_path / "bin" / "python", "-c", code], capture_output=True, text=True)
    assert used.stdout.split() == [str(tmp_path), torch.__version__], used.stderr


def test_an_environment_is_made_again_only_for_another_python_or_torch(tmp_path: Path) -> None:
    environment(tmp_path)
    stamp = tmp_path / "installed"
    made = stamp.stat().st_mtime_ns
    environment(tmp_path)
    assert stamp.stat().st_mtime_ns == made
    stamp.write_text(stamp.read_text(encoding="utf-8").replace(version("torch"), "2.0.0"), encoding="utf-8")
    other = stamp.stat().st_mtime_ns
    environment(tmp_path)
    assert stamp.stat().st_mtime_ns > other and version("torch") in stamp.read_text(encoding="utf-8")


def test_what_is_missing_is_named_in_one_line(tmp_path: Path) -> None:
    done = environment(tmp_path, "-S")  # without the packages of this Python
    run = f"Run: {sys.executable} -m pip install torch 'setuptools>=77' jinja2 pyyaml"
    assert done.returncode == 1 and done.stderr.startswith(f"{sys.executable} lacks what polycast needs. {run}")
    assert len(done.stderr.splitlines()) == 1 and list(tmp_path.iterdir()) == []


def test_a_file_that_needs_a_missing_package_is_skipped_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "hypothesis.py").write_text("raise ModuleNotFoundError(name=__name__)", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "tests/codegen/test_mutations.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert "hypothesis is not installed" in done.stdout and "no tests collected" in done.stdout, done.stdout
