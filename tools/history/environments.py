"""An environment for each torch release: the one that runs, or one made from the package index in build/history/."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import torch

from tools.headers import WHEEL

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "history"


@contextmanager
def python_of(version: str, keep: bool = False) -> Iterator[Path]:
    """Yield the interpreter that a release is installed for.

    Args:
        version: The release, as in "2.11.0". From the index comes its build with CUDA: others lack cuDNN's kernels.
        keep: Whether an environment that is made stays; one takes 5 GB and more. One that was there always stays.
    """
    folder = FOLDER / f"torch-{version}"
    python = folder / "bin" / "python"
    if python.exists():
        yield python
    elif torch.version.cuda is not None and torch.__version__.split("+")[0] == version:
        yield Path(sys.executable)
    else:
        try:
            _run(sys.executable, "-m", "venv", str(folder))
            _run(str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", "numpy", f"torch==={version}")
            yield python
        except BaseException:  # half of an environment would be taken for one
            keep = False
            raise
        finally:
            if not keep:
                shutil.rmtree(folder)


def probed(python: Path) -> dict[str, Any]:
    """Return what the probe says in an environment: packages, and categories of the overloads of each device."""
    printed = _run(str(python), "-W", "ignore", "-m", "tests.support.release_probe")
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def native_functions(version: str) -> str:
    """Return the operators of a release, as its wheel has them: the one for macOS, which is the smallest."""
    kept = FOLDER / f"native_functions-{version}.yaml"
    if not kept.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=FOLDER) as staging:
            _run(sys.executable, "-m", "pip", "download", f"--dest={staging}", *WHEEL, f"torch=={version}")
            (wheel,) = Path(staging).glob("*.whl")
            with ZipFile(wheel) as archive:
                kept.write_bytes(archive.read("torchgen/packaged/ATen/native/native_functions.yaml"))
    return kept.read_text(encoding="utf-8")


def _run(*command: str) -> str:
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        said = [line for line in lines if line.startswith("ERROR: ")] or lines[-1:]
        sys.exit(f"error: {' '.join(command[1:])} failed: {said[-1]}")
    return done.stdout
