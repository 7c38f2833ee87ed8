"""The command ``python -m tests.support.backend FILE|-m MODULE [ARGUMENT ...]``, which runs Python with the device.

The command first builds the device's package in ``build/``, for each PyTorch and Python. XLA is disabled.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

SOURCES = Path(__file__).parent
BUILD = SOURCES.parents[2] / "build"


def installed() -> Path:
    """Return the folder of the installed package for ``PYTHONPATH``, after building it if necessary."""
    folder = BUILD / f"mimic-{version('torch')}-{sys.implementation.cache_tag}"
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "mimic.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        changed = max(path.stat().st_mtime for path in SOURCES.rglob("*") if path.suffix in (".cpp", ".h", ".py"))
        if not folder.exists() or folder.stat().st_mtime < changed:
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    """Build the package without pip, with the metadata by which ``torch`` finds the package."""
    scripts = sysconfig.get_path("scripts")  # The environment may be inactive, so its `ninja` is not in `PATH`.
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    staging = folder.with_name(f"{folder.name}-new")
    for old in (folder, staging):
        shutil.rmtree(old, ignore_errors=True)
    staging.mkdir()
    command = [sys.executable, "setup.py", "-q", "egg_info", f"--egg-base={staging}"]
    command += ["build", f"--build-base={folder}-objects", f"--build-lib={staging}"]
    done = subprocess.run(command, cwd=SOURCES, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}error: the backend of the tests was not built")
    staging.rename(folder)


def main() -> None:
    path = [str(installed()), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "USE_TORCH_XLA": "0"}
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
