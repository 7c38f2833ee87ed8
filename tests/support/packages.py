"""Checks of the contents and metadata of a source distribution and a wheel, against the checkout."""

import re
import subprocess
import tarfile
from pathlib import Path
from zipfile import ZipFile

from packaging.metadata import Metadata
from packaging.utils import parse_sdist_filename, parse_wheel_filename

from tests.support.snippets import ROOT, page

DIST_INFO = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"}
# setuptools adds these files to the files of the checkout.
ADDED = {"PKG-INFO", "setup.cfg"}
# A build needs these files of the checkout.
NEEDED = [
    *("MANIFEST.in", "codegen", "csrc", "generated", "python", "policy.yaml", "pyproject.toml", "setup.py"),
    *("README.md", "LICENSE"),
]


def version() -> str:
    """Return the version in ``setup.py``."""
    (found,) = re.findall(r'(?m)^VERSION = "(.+)"$', page("setup.py"))
    return str(found)


def files_of(folder: Path) -> set[str]:
    """Return the paths of the files below a folder, except for files that Python and setuptools write."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if "__pycache__" not in path.parts and "egg-info" not in str(path)}


def packaged() -> set[str]:
    """Return the paths of the package's source files."""
    package = {name for name in files_of(ROOT / "python" / "polycast") if Path(name).suffix != ".so"}
    return package - {"_built_for.py"}


def check_wheel(path: Path, release: str) -> int:
    """Assert that a wheel contains only the package, for a minor release of PyTorch, and return the number of files."""
    _, named, _, (tag,) = parse_wheel_filename(path.name)
    wanted = f"{version()}+torch{release}"
    assert str(named) == wanted, named
    module = f"_C.cpython-{tag.interpreter.removeprefix('cp')}-x86_64-linux-gnu.so"
    with ZipFile(path) as wheel:
        info = f"polycast-{wanted}.dist-info"
        files = {f"polycast/{name}" for name in packaged() | {module, "_built_for.py"}}
        files |= {f"{info}/{name}" for name in DIST_INFO}
        assert not (different := files ^ {*wheel.namelist()}), different
        assert f"{ROOT}/".encode() not in wheel.read(f"polycast/{module}"), "the compiled module names this folder"
        assert b"polycast = polycast.__main__:main" in wheel.read(f"{info}/entry_points.txt")
        check_metadata(wheel.read(f"{info}/METADATA"), wanted, f"torch=={release}.*")
        return len(files)


def check_source_distribution(path: Path, *, others: bool = False) -> int:
    """Assert that a source distribution has exactly ``NEEDED`` and setuptools' files, and return the number of files.

    Args:
        others: Whether ``NEEDED`` includes untracked files that git does not ignore.
    """
    assert str(parse_sdist_filename(path.name)[1]) == version(), path
    command = ["git", "ls-files", "--cached", *(["--others", "--exclude-standard"] if others else []), *NEEDED]
    listed = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
    with tarfile.open(path) as archive:
        top = f"polycast-{version()}/"
        names = {member.name.removeprefix(top) for member in archive if not member.isdir()}
        held = {name for name in names - ADDED if not name.startswith("python/polycast.egg-info/")}
        assert not (different := held ^ {name for name in listed if (ROOT / name).exists()}), different
        information = archive.extractfile(f"{top}PKG-INFO")
        assert information is not None
        check_metadata(information.read(), version(), "torch>=2.9")
        return len(names)


def check_metadata(text: bytes, wanted: str, torch: str) -> None:
    """Assert that the metadata are valid, and match this package and the PyTorch release."""
    facts = Metadata.from_email(text)  # `from_email` raises for invalid fields.
    needed = {str(needed) for needed in facts.requires_dist or [] if needed.marker is None}
    found = (facts.name, str(facts.version), needed, facts.license_expression, facts.license_files)
    assert found == ("polycast", wanted, {torch, "pyyaml"}, "BSD-3-Clause", ["LICENSE"]), found
    assert str(facts.requires_python) == ">=3.10", facts.requires_python
    assert (facts.description_content_type, facts.description) == ("text/markdown", page("README.md"))
    assert "Typing :: Typed" in (facts.classifiers or []) and facts.summary
