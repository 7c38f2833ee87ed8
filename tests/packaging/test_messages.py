"""The errors of ``setup.py`` and of ``import polycast``, which state the cause and the fix in one line."""

import sys
from pathlib import Path

import polycast
import pytest
import torch

from tests.support.process import run_python

ROOT = Path(__file__).parents[2]
SETUP = "import runpy; sys.argv = ['setup.py', '--quiet', 'build_ext']; runpy.run_path('setup.py', run_name='__main__')"
REMEDY = (
    "Run: pip install torch jinja2 pyyaml ninja 'setuptools>=77' && pip install --no-build-isolation . "
    "(with uv: uv pip install)"
)
NO_TOOL = "expected a program in PATH that compiles polycast, got none"
# Each case is code that runs before `setup.py`, and the message that `setup.py` prints.
BUILDS = {
    "sys.version_info, sys.version = (3, 9), '3.9.18'": "Python: expected 3.10 or newer, got 3.9.18; use a newer one.",
    "sys.platform = 'darwin'": "platform: expected linux, got darwin; build polycast on Linux.",
    "import setuptools; setuptools.__version__ = '65.5.0'": f"setuptools: expected 77 or newer, got 65.5.0. {REMEDY}",
    "sys.modules['torch'] = None": f"torch: expected an installed package, got none in {sys.prefix}. {REMEDY}",
    "import torch; torch.__version__ = '2.8.0'": f"torch: expected >=2.9, got 2.8.0 in {sys.prefix}; upgrade torch.",
    "import os; os.environ['CXX'] = 'no_such -O1'": f"no_such: {NO_TOOL}; install g++, or set CXX.",
    "import shutil; shutil.which = lambda name: None if name == 'ninja' else name": (
        f"ninja: {NO_TOOL}; run: pip install ninja."
    ),
}


@pytest.mark.parametrize("wrong", BUILDS)
def test_an_impossible_build_states_the_reason_in_one_line(wrong: str) -> None:
    done = run_python("-c", f"import sys; {wrong}; {SETUP}", cwd=ROOT)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, BUILDS[wrong])
    assert "Traceback" not in done.stderr


def test_a_build_finds_the_torch_that_build_isolation_hides() -> None:
    """With build isolation, pip runs the environment's Python with only the packages that the build requires."""
    code = f"""
import importlib.util, jinja2, setuptools, sys, yaml
sys.path = [path for path in sys.path if "site-packages" not in path]
assert importlib.util.find_spec("torch") is None
{SETUP.replace("'build_ext'", "'--version'")}
"""
    done = run_python("-c", code, cwd=ROOT)
    assert (done.returncode, done.stdout.split()[-1:]) == (0, [polycast.__version__]), done.stderr


AGAIN = "; run: pip install --force-reinstall --no-deps --no-cache-dir "
AGAIN += "polycast==0.2.0+torch" + ".".join(torch.__version__.split(".")[:2])
PYTHON = sys.implementation.cache_tag
# Each case has the contents of `_built_for.py`, and the error of the import.
IMPORTS = {
    f"VERSION='0.2.0+torch1.0', TORCH='1.0.0', PYTHON='{PYTHON}', SOURCES=''": (
        f"polycast 0.2.0+torch1.0 was built for torch 1.0.0, not for torch {torch.__version__}{AGAIN}"
    ),
    f"VERSION='0.2.0', TORCH='{torch.__version__}', PYTHON='cpython-39', SOURCES=''": (
        f"polycast 0.2.0 was built for cpython-39, not for {PYTHON}{AGAIN}"
    ),
}


@pytest.mark.parametrize("built_for", IMPORTS)
def test_importing_a_build_for_another_environment_prints_the_command_to_reinstall(built_for: str) -> None:
    there = f"sys.modules['polycast._built_for'] = types.SimpleNamespace({built_for})"
    done = run_python("-c", f"import sys, types; {there}; import polycast", cwd=ROOT)
    assert done.stderr.splitlines()[-1] == f"ImportError: {IMPORTS[built_for]}"


def test_importing_an_unbuilt_source_tree_prints_the_command_to_build(tmp_path: Path) -> None:
    """A checkout without a build has no compiled module and no ``_built_for.py``."""
    for path in (ROOT / "python" / "polycast").iterdir():
        if path.name != "_built_for.py" and path.suffix != ".so":
            target = tmp_path / "polycast" / path.name
            target.parent.mkdir(exist_ok=True)
            target.symlink_to(path)
    done = run_python("-c", "import polycast", cwd=tmp_path)
    says = "polycast is not built here; run 'pip install .' in its source tree, and import it from another folder"
    assert done.stderr.splitlines()[-1] == f"ImportError: {says}"
