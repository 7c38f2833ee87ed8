"""Checks the C++ against PyTorch releases that are not installed: `python -m tests.slow.headers 2.12.0 newest`.

The headers come from the wheels for macOS, which are the small ones, and stay in build/headers/. What only CUDA has is
not among them, and nothing here includes it.
"""

import json
import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from tests.support.cpp import EXTENSION, standard
from tests.support.progress import progress

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "build" / "headers"
# Releases up to 2.11 are for macOS 11 and later, those from 2.12 on for macOS 14.
WHEEL = ["--no-deps", "--only-binary=:all:", "--platform=macosx_11_0_arm64", "--platform=macosx_14_0_arm64"]


def main(versions: list[str]) -> int:
    """Check against each release, print a line for each and the errors below it; return the exit status."""
    failed = False
    for version in versions:
        headers = fetch(newest() if version == "newest" else version)
        errors = check(headers)
        print(f"torch {headers.name} ({standard(headers)}): {len(sources())} files, {'errors' if errors else 'ok'}")
        print("".join(errors), end="")
        failed = failed or bool(errors)
    return int(failed)


def newest() -> str:
    """Return the newest release on the package index."""
    arguments = ["install", "--dry-run", "--ignore-installed", "--report=-", f"--target={HEADERS}", *WHEEL, "torch"]
    return str(json.loads(_pip(*arguments))["install"][0]["metadata"]["version"])


def fetch(version: str) -> Path:
    """Return the folder with the headers of a release, downloaded the first time it is asked for."""
    folder = HEADERS / version
    if not folder.exists():
        HEADERS.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=HEADERS) as staging:
            _pip("download", f"--dest={staging}", *WHEEL, f"torch=={version}")
            (wheel,) = Path(staging).glob("*.whl")
            with ZipFile(wheel) as archive:
                wanted = [name for name in archive.namelist() if name.startswith("torch/include/") or name == EXTENSION]
                archive.extractall(Path(staging) / "headers", progress(wanted, f"headers of torch {version}"))
            (Path(staging) / "headers").rename(folder)
    return folder


def sources() -> list[Path]:
    return sorted(
        path for top in ("csrc", "generated", "tests/support/backend") for path in (ROOT / top).rglob("*.cpp")
    )


def check(headers: Path) -> list[str]:
    """Return what the compiler says of each file that it refuses; warnings in our own code are errors."""
    include = headers / "torch" / "include"
    system = [include, include / "torch" / "csrc" / "api" / "include", sysconfig.get_path("include")]
    command = ["g++", "-fsyntax-only", f"-std={standard(headers)}", "-Wall", "-Werror"]
    command += [
        "-DAT_PER_OPERATOR_HEADERS",
        "-fvisibility=hidden",
        f"-I{ROOT / 'csrc'}",
        *(f"-isystem{path}" for path in system),
    ]

    def errors(source: Path) -> str:
        result = subprocess.run([*command, source.relative_to(ROOT)], cwd=ROOT, capture_output=True, text=True)
        lines = [line for line in result.stderr.splitlines(keepends=True) if "error: " in line]
        return "".join(lines) or result.stderr if result.returncode else ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = progress(pool.map(errors, sources()), f"torch {headers.name}", len(sources()))
        return list(filter(None, found))


def _pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "--quiet", *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"error: pip could not get torch: {result.stderr.strip()}")
    return result.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
