"""A check that csrc compiles with other PyTorch releases: `python -m tests.slow.headers 2.12.0 newest`.

The headers come from the wheels for macOS, which are the smallest, and are stored in build/headers/. CUDA's headers are
missing, but our code does not include them.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "build" / "headers"
EXTENSION = "torch/utils/cpp_extension.py"
FOLDERS = ("csrc", "generated", "tests/support/backend")
# Releases up to 2.11 are for macOS 11 and later, and releases from 2.12 on are for macOS 14.
WHEEL = ["--no-deps", "--only-binary=:all:", "--platform=macosx_11_0_arm64", "--platform=macosx_14_0_arm64"]
OPTIONS = ["-fsyntax-only", "-Wall", "-Werror", "-DAT_PER_OPERATOR_HEADERS", "-fvisibility=hidden", "-Icsrc"]


def main(versions: list[str]) -> int:
    """Check each release, print its result in one line and then its errors, and return the exit status."""
    failed = False
    for version in versions:
        headers = fetch(newest() if version == "newest" else version)
        sources = [path.relative_to(ROOT) for top in FOLDERS for path in sorted((ROOT / top).rglob("*.cpp"))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            errors = "".join(pool.map(errors_of, sources, repeat(headers)))
        print(f"torch {headers.name} ({standard(headers)}): {len(sources)} files, {'errors' if errors else 'ok'}")
        print(errors, end="", flush=True)
        failed = failed or bool(errors)
    return int(failed)


def standard(headers: Path) -> str:
    """Return the C++ standard with which PyTorch compiles extensions. The folder `headers` contains torch/."""
    match = re.search(r"common_cflags \+= \['-std=(c\+\+\d+)'", (headers / EXTENSION).read_text(encoding="utf-8"))
    assert match is not None, f"{EXTENSION} of torch {headers.name} does not state the C++ standard"
    return match[1]


def newest() -> str:
    """Return the newest release on the package index."""
    arguments = ["install", "--dry-run", "--ignore-installed", "--report=-", f"--target={HEADERS}", *WHEEL, "torch"]
    return str(json.loads(_pip(*arguments))["install"][0]["metadata"]["version"])


def fetch(version: str) -> Path:
    """Return the folder with the headers of a release, downloaded on the first call."""
    folder = HEADERS / version
    if not folder.exists():
        HEADERS.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=HEADERS) as staging:
            _pip("download", f"--dest={staging}", *WHEEL, f"torch=={version}")
            (wheel,) = Path(staging).glob("*.whl")
            with ZipFile(wheel) as archive:
                wanted = [name for name in archive.namelist() if name.startswith("torch/include/") or name == EXTENSION]
                archive.extractall(Path(staging) / "headers", wanted)
            (Path(staging) / "headers").rename(folder)
    return folder


def errors_of(source: Path, headers: Path) -> str:
    """Return the compiler's errors for a file. Warnings in our own code are errors."""
    include = headers / "torch" / "include"
    system = [include, include / "torch" / "csrc" / "api" / "include", sysconfig.get_path("include")]
    command = ["g++", *OPTIONS, f"-std={standard(headers)}", *(f"-isystem{path}" for path in system), str(source)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    lines = [line for line in result.stderr.splitlines(keepends=True) if "error: " in line]
    return "".join(lines) or result.stderr if result.returncode else ""


def _pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "--quiet", *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"error: pip could not get torch: {result.stderr.strip()}")
    return result.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
