"""Does in fresh folders what a newcomer does: `python -m tools.newcomer`, in the environment that has torch.

The source distribution is made and unpacked into a folder called polycast. In an environment without anything but what
Python brings, pip names what is missing; with this one's packages beside it, it installs. The op that CONTRIBUTING.md
adds is added, built and tested, and the whole passes lint. Takes minutes: everything is compiled once.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from tests.support.snippets import ROOT, added_op, added_sample, page

# Those of the op alone, and those that look at the whole policy.
TESTS = [
    "tests/codegen",
    "tests/packaging",
    "tests/autocast/test_completeness.py",
    "tests/autocast/test_public_names.py",
]
TESTS = ["tests/autocast/test_policy_cases.py", "tests/autocast/test_parity.py", "-k", "erf"]
LINT = [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"], ["codegen", "--check"]]


def main() -> int:
    """Take the steps, print the seconds of each; the first that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    with TemporaryDirectory() as folder:
        place = Path(folder)
        source = unpack(place)
        python = environment(place / "environment")
        install = [str(python), *["-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "."]]
        refused = subprocess.run(install, cwd=source, capture_output=True, text=True)
        assert refused.returncode != 0 and "Run: pip install torch" in refused.stdout + refused.stderr, refused.stderr
        print(f"pip without torch and setuptools: {len(refused.stderr.splitlines())} lines, with the command to run")
        share(place / "environment")
        step("the first build", install, source)
        add_op(source)
        step("the op of CONTRIBUTING.md, from edit to import", [*install, "--force-reinstall"], source)
        step("its tests", [python, "-m", "pytest", "-q", *TESTS], source)
        step("its tests", [python, "-m", "pytest", "-q", *TESTS], source)
        for command in LINT:
            step(" ".join(command), [python, "-m", *command], source)
    return 0


def source_distribution(place: Path) -> Path:
    """Return the source distribution of the checkout, which is made in a folder."""
    with TemporaryDirectory() as folder:  # or it would leave a folder among the sources
        options = f"--quiet egg_info --egg-base {folder} sdist --dist-dir {place}"
        step("the source distribution", [sys.executable, "setup.py", *options.split()], ROOT)
    (archive,) = place.glob("*.tar.gz")
    return archive


def unpack(place: Path) -> Path:
    """Return a folder called polycast with what the source distribution holds."""
    archive = source_distribution(place)
    shutil.unpack_archive(archive, place, filter="data")
    return (place / archive.name.removesuffix(".tar.gz")).rename(place / "polycast")


def environment(folder: Path) -> Path:
    """Return the interpreter of a new environment, with the pip and setuptools that Python brings, if it brings any."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


def share(folder: Path) -> None:
    """Have an environment see the packages of this one, but for those of its own: pip, and not Python's setuptools."""
    subprocess.run([folder / "bin" / "python", "-m", "pip", "uninstall", "-qy", "setuptools"], check=True)
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")


def add_op(source: Path) -> None:
    """Follow "Adding or changing an op"."""
    (source / "policy.yaml").write_text(added_op(page("policy.yaml")), encoding="utf-8")
    samples = source / "python" / "polycast" / "debug" / "verification" / "samples.py"
    samples.write_text(added_sample(samples.read_text(encoding="utf-8")), encoding="utf-8")


def step(name: str, command: Sequence[Any], folder: Path) -> None:
    start = perf_counter()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}: failed\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    print(f"{name}: {perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
