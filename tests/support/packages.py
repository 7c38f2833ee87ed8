"""What a source distribution and a wheel must hold and say, by the checkout that they are made of."""

import base64
import csv
import hashlib
import re
import subprocess
import tarfile
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

from packaging.metadata import Metadata
from packaging.utils import parse_sdist_filename, parse_wheel_filename

from tests.support.snippets import ROOT, page

DIST_INFO = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"}
# What setuptools adds to the files of the checkout.
ADDED = {"PKG-INFO", "setup.cfg"}


def version() -> str:
    """Return the version of the source distribution, which setup.py holds."""
    (found,) = re.findall(r'(?m)^VERSION = "(.+)"$', page("setup.py"))
    return str(found)


def files_of(folder: Path) -> set[str]:
    """Return the paths of the files below a folder, but what Python and setuptools write there."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if "__pycache__" not in path.parts and "egg-info" not in str(path)}


def packaged() -> set[str]:
    """Return the files of the package."""
    package = {name for name in files_of(ROOT / "python" / "polycast") if Path(name).suffix != ".so"}
    return package - {"_built_for.py"}


def check_wheel(path: Path, release: str) -> int:
    """Raise unless the wheel holds the package and nothing else, for a minor release of torch; return its files."""
    _, named, _, tags = parse_wheel_filename(path.name)
    wanted = f"{version()}+torch{release}"
    equal(str(named), wanted, "the version in its name")
    (tag,) = tags
    module = f"_C.cpython-{tag.interpreter.removeprefix('cp')}-x86_64-linux-gnu.so"
    with ZipFile(path) as wheel:
        info = f"polycast-{wanted}.dist-info"
        package = {f"polycast/{name}" for name in packaged() | {module, "_built_for.py"}}
        equal(set(wheel.namelist()), package | {f"{info}/{name}" for name in DIST_INFO}, "the files")
        for name, digest, _ in csv.reader(wheel.read(f"{info}/RECORD").decode().splitlines()):
            found = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=").decode()
            equal(digest, "" if name.endswith("/RECORD") else f"sha256={found}", f"the digest of {name}")
        assert f"{ROOT}/".encode() not in wheel.read(f"polycast/{module}"), "the compiled module names this folder"
        assert b"polycast = polycast.__main__:main" in wheel.read(f"{info}/entry_points.txt")
        check_metadata(wheel.read(f"{info}/METADATA"), wanted, f"torch=={release}.*")
        return len(wheel.namelist())


def check_source_distribution(path: Path, *, others: bool = False) -> int:
    """Raise unless it holds the files that a build needs, and nothing else; return how many.

    Args:
        others: Whether files may be there that git could be given.
    """
    equal(str(parse_sdist_filename(path.name)[1]), version(), "the version in its name")
    with tarfile.open(path) as archive:
        top = f"polycast-{version()}/"
        names = {member.name.removeprefix(top) for member in archive if not member.isdir()}
        held = {name for name in names - ADDED if not name.startswith("python/polycast.egg-info/")}
        equal(held, tracked(others), "the files")
        information = archive.extractfile(f"{top}PKG-INFO")
        assert information is not None
        check_metadata(information.read(), version(), "torch>=2.9")
        return len(names)


def tracked(others: bool) -> set[str]:
    """Return the files that a build needs, of those that git has."""
    needed = [
        "codegen",
        "csrc",
        "generated",
        "python",
        "policy.yaml",
        "pyproject.toml",
        "setup.py",
        "README.md",
        "LICENSE",
    ]
    command = ["git", "ls-files", "--cached", *(["--others", "--exclude-standard"] if others else []), *needed]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {name for name in listed if (ROOT / name).exists()}


def check_metadata(text: bytes, wanted: str, torch: str) -> None:
    """Raise unless the metadata are valid by the standard, and are those of this package for a torch."""
    facts = Metadata.from_email(text)  # raises for fields that are not valid
    equal((facts.name, str(facts.version)), ("polycast", wanted), "name and version")
    needed = {str(needed) for needed in facts.requires_dist or [] if needed.marker is None}
    equal(needed, {torch, "pyyaml"}, "what it requires")
    equal((facts.license_expression, facts.license_files), ("BSD-3-Clause", ["LICENSE"]), "the license")
    equal(str(facts.requires_python), ">=3.10", "the Python that it requires")
    equal(facts.description_content_type, "text/markdown", "the type of the description")
    equal(facts.description == page("README.md"), True, "whether README.md is the description")
    assert "Typing :: Typed" in (facts.classifiers or [])
    assert message_from_bytes(text)["Summary"]


def equal(found: object, wanted: object, what: str) -> None:
    """Raise a ValueError that names what differs."""
    if isinstance(found, set) and isinstance(wanted, set):
        extra, missing = sorted(found - wanted), sorted(wanted - found)
        text = f"{extra} must not be there, {missing} must"
    else:
        text = f"{found!r}, not {wanted!r}"
    if found != wanted:
        raise ValueError(f"{what}: {text}")
