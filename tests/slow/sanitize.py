"""Runs the tests of the kernels on a build with sanitizers: `make sanitize`.

The C++ is compiled with AddressSanitizer and UndefinedBehaviorSanitizer into build/sanitize/, as a package beside the
installed one, and the tests run on it. A memory or undefined-behaviour error ends the process, and so fails.
"""

import os
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "sanitize" / f"torch-{torch.__version__.split('+')[0]}"
# vptr would need the type information of torch's classes, which torch does not export.
FLAGS = "-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer"
TESTS = ["tests/optim", "tests/scaler/test_kernels.py", "--ignore=tests/optim/test_accuracy.py"]  # 100 steps of floats
# Torch and Python are not compiled with the sanitizers: the runtime comes first, and they may keep what they like.
RUNTIMES = ("libasan.so", "libubsan.so")
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1", "PYTHONPATH": str(BUILD / "lib")}


def main(arguments: list[str]) -> int:
    """Build, of what has changed, run, and return pytest's exit status."""
    flags = {"MAX_JOBS": "2", **os.environ, "CFLAGS": FLAGS, "LDFLAGS": FLAGS}
    command = [sys.executable, "setup.py", "--quiet", "build", f"--build-base={BUILD}", f"--build-lib={BUILD / 'lib'}"]
    subprocess.run(command, cwd=ROOT, env=flags, check=True)
    found = [subprocess.check_output(["g++", f"-print-file-name={name}"], text=True).strip() for name in RUNTIMES]
    environment = {**os.environ, **OPTIONS, "LD_PRELOAD": " ".join(found)}
    check = f"import polycast; assert polycast.__file__.startswith({str(BUILD)!r}), polycast.__file__"
    subprocess.run([sys.executable, "-c", check], cwd=BUILD, env=environment, check=True)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *(arguments or TESTS)]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
