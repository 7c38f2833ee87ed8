"""What is built and handed on: the compiled module, the wheel's metadata, the source distribution, the messages."""

import fcntl
import importlib.util
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import requires
from pathlib import Path

import polycast
import pytest
import torch

ROOT = Path(__file__).parents[2]
INSTALLED = Path(polycast.__file__).parent
RELEASE = ".".join(torch.__version__.split(".")[:2])
# What a checkout holds beside its sources.
MADE = {"build", "dist", "__pycache__", ".git", ".hypothesis"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source distribution in dist/, and in lib/ what an older build left and this one copied."""
    folder = tmp_path_factory.mktemp("made")
    stale = folder / "lib" / "polycast" / "gone.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    command = (
        f"--quiet egg_info --egg-base {folder} sdist --dist-dir {folder / 'dist'} build_py --build-lib {folder / 'lib'}"
    )
    subprocess.run([sys.executable, "setup.py", *command.split()], cwd=ROOT, check=True, capture_output=True)
    return folder


def _sources(folder: Path) -> set[str]:
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in files if "__pycache__" not in path.parts and "egg-info" not in str(path)}


def test_the_compiled_module_holds_no_path_of_its_builder() -> None:
    spec = importlib.util.find_spec("polycast._C")
    assert spec is not None and spec.origin is not None
    binary = Path(spec.origin).read_bytes()
    for place in (ROOT, Path(sys.prefix), Path.home()):
        assert f"{place}/".encode() not in binary


def test_a_wheel_asks_for_the_release_of_torch_that_it_was_built_for() -> None:
    assert f"torch=={RELEASE}.*" in (requires("polycast") or [])


def test_a_python_file_that_was_removed_does_not_stay(made: Path) -> None:
    assert _sources(made / "lib" / "polycast") == _sources(ROOT / "python" / "polycast")
    extra = _sources(INSTALLED) - _sources(ROOT / "python" / "polycast")
    assert {Path(name).suffix for name in extra - {"_built_for.py"}} == {".so"}


def test_a_source_distribution_holds_every_file_and_is_open_to_every_torch(made: Path) -> None:
    (path,) = (made / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
        (member,) = [name for name in archive.getnames() if name.count("/") == 1 and name.endswith("/PKG-INFO")]
        file = archive.extractfile(member)
        assert file is not None
        assert "Requires-Dist: torch>=2.9\n" in file.read().decode()
    top = [path for path in ROOT.iterdir() if path.name not in MADE and not path.name.endswith((".png", "_cache"))]
    wanted = {path.name for path in top if path.is_file() and path.name != ".git"}
    for folder in (path for path in top if path.is_dir() and not path.name.startswith(".venv")):
        wanted |= {f"{folder.name}/{name}" for name in _sources(folder)}
    assert wanted - held == set()


OLD_SETUPTOOLS = "polycast needs setuptools 77 or newer, and 65.5.0 is installed. Run: pip install torch "


def test_an_old_setuptools_is_named_in_one_line_with_the_command_that_mends_it(tmp_path: Path) -> None:
    command = tmp_path / "setuptools" / "command"
    command.mkdir(parents=True)
    (command.parent / "__init__.py").write_text('__version__ = "65.5.0"\n', encoding="utf-8")
    (command / "__init__.py").touch()
    (command / "build_py.py").write_text("class build_py: pass\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, ROOT / "setup.py"], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(OLD_SETUPTOOLS)
    assert done.stderr.endswith("'setuptools>=77' && pip install --no-build-isolation .\n")


# Runs setup.py with a compiler that does nothing.
WITHOUT_COMPILER = """
import runpy, sys
from torch.utils.cpp_extension import BuildExtension
BuildExtension.run = lambda self: None
sys.argv = ["setup.py", "--quiet", "build_ext", "--build-lib", sys.argv[1], *sys.argv[2:]]
runpy.run_path("setup.py", run_name="__main__")
"""


@pytest.mark.parametrize(("options", "place"), [((), "lib/polycast"), (("--inplace",), "python/polycast")])
def test_what_a_build_was_for_is_written_beside_its_compiled_module(
    tmp_path: Path, options: tuple[str, ...], place: str
) -> None:
    """An editable install has it among the sources."""
    for name in ("setup.py", "pyproject.toml", "policy.yaml", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for name in ("codegen", "csrc", "generated", "history", "python"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "_built_for.py"))
    (tmp_path / "lib" / "polycast").mkdir(parents=True)
    command = [sys.executable, "-c", WITHOUT_COMPILER, str(tmp_path / "lib"), *options]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    written = [path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("_built_for.py")]
    assert written == [place]
    assert f'TORCH = "{torch.__version__}"\n' in (tmp_path / place / "_built_for.py").read_text(encoding="utf-8")


def test_a_second_build_waits_for_the_first() -> None:
    with (ROOT / "build" / ".lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        second = subprocess.Popen(
            [sys.executable, "setup.py", "--quiet", "--name"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert second.stderr is not None
        waiting = next(line for line in second.stderr if line.startswith("Another process"))
        assert waiting == f"Another process builds in {ROOT}; waiting for it.\n"
        assert second.poll() is None
    printed, _ = second.communicate()
    assert (second.returncode, printed.splitlines()[-1]) == (0, "polycast")
