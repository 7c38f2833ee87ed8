"""A script that creates an environment with the packages of a Python installation, for ``make test TORCH=installed``.

    PYTHON tests/environments/installed.py FOLDER

The environment has all packages of ``PYTHON``, even if ``PYTHON`` belongs to a virtual environment, whose packages
``--system-site-packages`` would not include. The script downloads nothing, and writes only below the folder. If
``PYTHON`` lacks a package that the build or the tests need, the error names the package. A later run changes nothing,
unless ``PYTHON`` or its PyTorch has changed.
"""

import os
import shutil
import site
import sys
import sysconfig
import venv
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

# The build and the tests need these modules, with these requirements for pip. All other packages are optional.
NEEDED = {
    "torch": "torch",
    "setuptools": "'setuptools>=77'",
    "jinja2": "jinja2",
    "yaml": "pyyaml",
    "ninja": "ninja",
    "pytest": "pytest",
}
SCRIPTS = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])


def main(folder: Path) -> None:
    """Create the environment unless it is up to date, or exit with the names of missing packages."""
    missing = [package for module, package in NEEDED.items() if not is_there(module)]
    if missing:
        sys.exit(
            f"{sys.executable} lacks packages of polycast. Run: {sys.executable} -m pip install {' '.join(missing)}"
        )
    stamp = folder / "installed"
    facts = f"{sys.executable} {sys.version.split()[0]}, torch {version('torch')}\n"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == facts:
        return
    venv.create(folder, clear=True, symlinks=True)
    (own,) = folder.glob("lib/python*/site-packages")
    folders = site.getsitepackages() + ([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])
    lines = ["import site", *(f"site.addsitedir({path!r})" for path in folders)]
    (own / "machine.pth").write_text("; ".join(lines) + "\n", encoding="utf-8")
    if shutil.which("ninja", path=sysconfig.get_path("scripts")):
        (folder / "bin" / "ninja").symlink_to(Path(sysconfig.get_path("scripts"), "ninja"))
    stamp.write_text(facts, encoding="utf-8")


def is_there(module: str) -> bool:
    """Return whether this Python has a required package, and for setuptools a supported version."""
    if module == "ninja":
        return shutil.which("ninja", path=SCRIPTS) is not None
    try:
        return find_spec(module) is not None and (module != "setuptools" or int(version(module).split(".")[0]) >= 77)
    except PackageNotFoundError:
        return False


if __name__ == "__main__":
    main(Path(sys.argv[1]))
