"""The built and distributed files: the compiled module, the wheel's metadata, and the source distribution."""

import fcntl
import importlib.util
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import requires, version
from pathlib import Path

import polycast
import pytest
import torch

from tests.support.packages import check_source_distribution, check_wheel, files_of, packaged

ROOT = Path(__file__).parents[2]
INSTALLED = Path(polycast.__file__).parent
RELEASE = ".".join(torch.__version__.split(".")[:2])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a source distribution to dist/, and a build to lib/, which has a stale file. Return the folder."""
    folder = tmp_path_factory.mktemp("made")
    stale = folder / "lib" / "polycast" / "gone.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    command = (
        f"--quiet egg_info --egg-base {folder} sdist --dist-dir {folder / 'dist'} build_py --build-lib {folder / 'lib'}"
    )
    with (ROOT / "setup.py").open() as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)  # sdist writes to a folder in `ROOT`, which another process may use as well.
        subprocess.run([sys.executable, "setup.py", *command.split()], cwd=ROOT, check=True, capture_output=True)
    return folder


def test_the_compiled_module_contains_no_path_of_its_build() -> None:
    spec = importlib.util.find_spec("polycast._C")
    assert spec is not None and spec.origin is not None
    binary = Path(spec.origin).read_bytes()
    for place in (ROOT, Path(sys.prefix), Path.home()):
        assert f"{place}/".encode() not in binary


def test_a_wheel_states_and_requires_the_release_of_torch_that_it_was_built_for() -> None:
    assert f"torch=={RELEASE}.*" in (requires("polycast") or [])
    assert polycast.__version__ == version("polycast")
    assert polycast.__version__.endswith(f"+torch{RELEASE}")


def test_a_wheel_contains_only_the_package() -> None:
    built = [*ROOT.glob(f"build/wheel-{torch.__version__.partition('+')[0]}/*.whl")]
    if not built:
        pytest.skip("`make build` has written no wheel for this PyTorch")
    assert check_wheel(built[0], RELEASE) > 100


def test_a_removed_python_file_is_not_packaged(made: Path) -> None:
    assert files_of(made / "lib" / "polycast") == packaged()
    extra = files_of(INSTALLED) - packaged()
    assert {Path(name).suffix for name in extra - {"_built_for.py"}} == {".so"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git does not list the project's files here")
def test_a_source_distribution_contains_only_the_files_of_a_build(made: Path) -> None:
    (path,) = (made / "dist").glob("*.tar.gz")
    assert check_source_distribution(path, others=True) > 150


def test_a_source_distribution_and_its_wheel_name_no_torch(made: Path, tmp_path: Path) -> None:
    """pip requires one version for a source distribution and its wheel. It may reuse the wheel with another PyTorch."""
    (path,) = (made / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(made, filter="data")
    source = made / path.name.removesuffix(".tar.gz")
    command = f"--quiet egg_info --egg-base {tmp_path}".split()
    subprocess.run([sys.executable, "setup.py", *command], cwd=source, check=True, capture_output=True)
    for path in (source, tmp_path / "polycast.egg-info"):
        facts = (path / "PKG-INFO").read_text(encoding="utf-8").splitlines()
        assert f"Version: {polycast.__version__.partition('+')[0]}" in facts
        assert "Requires-Dist: torch>=2.9" in facts


# This program runs `setup.py` without compiling.
WITHOUT_COMPILER = """
import runpy, sys
from torch.utils.cpp_extension import BuildExtension
BuildExtension.run = lambda self: None
sys.argv = ["setup.py", "--quiet", "build_ext", "--build-lib", sys.argv[1], *sys.argv[2:]]
runpy.run_path("setup.py", run_name="__main__")
"""


@pytest.mark.parametrize(("options", "place"), [((), "lib/polycast"), (("--inplace",), "python/polycast")])
def test_the_target_of_a_build_is_written_next_to_its_compiled_module(
    tmp_path: Path, options: tuple[str, ...], place: str
) -> None:
    """In an editable install, ``_built_for.py`` and the compiled module are in the source folder."""
    for name in ("setup.py", "pyproject.toml", "policy.yaml", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for name in ("codegen", "csrc", "generated", "python"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "_built_for.py"))
    (tmp_path / "lib" / "polycast").mkdir(parents=True)
    command = [sys.executable, "-c", WITHOUT_COMPILER, str(tmp_path / "lib"), *options]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    written = [path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("_built_for.py")]
    assert written == [place]
    assert f'TORCH = "{torch.__version__}"\n' in (tmp_path / place / "_built_for.py").read_text(encoding="utf-8")
