"""The files that codegen makes for a backend, compiled and tested with torch and the backend alone."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from codegen.__main__ import main
from tests.support.backend import NAME
from tests.support.backend.__main__ import installed

ROOT = Path(__file__).parents[2]
BACKEND = f"""\
devices:
  {NAME}:
    dispatch_key: AutocastPrivateUse1
    lower_precision: [bfloat16, float16]
    like: privateuse1
    backend: tests/support/backend
    except: {{promote: [stack], unlisted: [OPS]}}
ops:
  erf: {{cast: {{{NAME}: {{as: input_dtype, note: It shall show the category.}}}}, public: [torch.erf]}}
"""
COMPILE = """
import sys
from torch.utils.cpp_extension import load
load("ops", ["ops.cpp"], extra_cflags=["-O0", "-Wall", "-Werror"], build_directory=".", is_python_module=False)
"""
# What the owner of the backend has in conftest.py, and a look at what was imported.
CONFTEST = """
import sys
import torch
torch.ops.load_library("ops.so")
torch.set_autocast_dtype("NAME", torch.bfloat16)
def pytest_sessionfinish():
    assert not {"polycast", "codegen"} & {*sys.modules}
""".replace("NAME", NAME)


def run(folder: Path, *command: str) -> str:
    """Run Python with the backend, and return what it prints and its exit status."""
    environment = {**os.environ, "PYTHONPATH": f"{installed()}{os.pathsep}{folder}", "USE_TORCH_XLA": "0"}
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1"
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)
    return f"{done.stdout}{done.stderr}status {done.returncode}"


def write(folder: Path, unlisted: str, *names: str) -> None:
    described = folder / "backend.yaml"
    described.write_text(BACKEND.replace("OPS", unlisted), encoding="utf-8")
    assert main(["--backend", str(described), "--standalone", *(str(folder / name) for name in names)]) == 0


def test_the_registration_compiles_and_passes_its_test_which_finds_what_drifted() -> None:
    """An unchanged registration is not compiled again."""
    folder = ROOT / "build" / f"standalone-{version('torch')}-{sys.implementation.cache_tag}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    write(folder, "cosh, mm", "ops.cpp", "test_ops.py", "ops.md")
    compiled = run(folder, "-c", COMPILE)
    assert compiled.endswith("status 0"), compiled
    write(folder, "cosh, log", "test_drifted.py")
    text = (folder / "test_drifted.py").read_text(encoding="utf-8")
    swapped = text.replace("LOWER = [torch.bfloat16, torch.float16]", "LOWER = [torch.float16, torch.bfloat16]")
    (folder / "test_drifted.py").write_text(swapped, encoding="utf-8")
    options = f"-m pytest -q -W error -p no:cacheprovider -c {os.devnull} --rootdir . test_ops.py test_drifted.py"
    printed = run(folder, *options.split())
    failed = re.findall(r"^FAILED (\w+).py::\w+\[(\w+)\]", printed, re.MULTILINE)
    assert {*failed} == {("test_drifted", "log"), ("test_drifted", "mm")}, printed
    assert "skipped" not in printed
    assert "regions have torch.bfloat16 unless they name a dtype: call torch.set_autocast_dtype(" in printed
