"""The script of ``make sanitize``, which runs tests on builds with sanitizers.

The script compiles the C++ twice, into ``build/sanitize/``. AddressSanitizer and UndefinedBehaviorSanitizer check the
kernels. ThreadSanitizer checks the scopes, the cast cache and the call recorder. A finding ends the process, so the
tests fail.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import torch

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "sanitize" / f"torch-{torch.__version__.split('+')[0]}"

# Without `NDEBUG`, some classes of PyTorch would have more fields than in PyTorch's binaries.
_COMMON = "-fno-omit-frame-pointer -DNDEBUG"
# In these tests, several threads start, end and use traces.
TRACES = (
    "a_trace_lists_the_rule_that_the_kernel_followed_while_another_thread_changes_the_process_policy",
    "a_trace_that_another_thread_ends_stops_recording",
    "a_trace_of_lines_can_be_left_in_another_thread_during_calls",
)


class Sanitizer(NamedTuple):
    """A build with sanitizers and its tests. PyTorch and Python are not instrumented, so the runtime is preloaded."""

    flags: str
    runtimes: tuple[str, ...]
    options: dict[str, str]
    tests: tuple[str, ...]


SANITIZERS = {
    "memory": Sanitizer(
        # `vptr` would need type information of PyTorch's classes, which PyTorch does not export.
        f"-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all {_COMMON}",
        ("libasan.so", "libubsan.so"),
        {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"},
        ("tests/optim", "tests/scaler/test_kernels.py", "--ignore=tests/optim/test_accuracy.py"),
    ),
    "threads": Sanitizer(
        f"-fsanitize=thread {_COMMON}",
        ("libtsan.so",),
        # ThreadSanitizer does not see PyTorch's accesses or OpenMP's barriers, so PyTorch's pool has one thread.
        {
            "TSAN_OPTIONS": f"halt_on_error=1 suppressions={Path(__file__).with_name('thread_sanitizer.txt')}",
            "OMP_NUM_THREADS": "1",
        },
        # pytest does not capture output, because a finding ends the process before pytest prints captured output.
        (
            "--capture=no",
            "tests/cast_cache/test_threads.py",
            "tests/policies/test_processes.py",
            *(f"tests/debug/test_trace.py::test_{name}" for name in TRACES),
        ),
    ),
}


def main(arguments: list[str]) -> int:
    """Build and test all of ``SANITIZERS``, or only the first argument. Return pytest's largest exit status."""
    names = [arguments.pop(0)] if arguments and arguments[0] in SANITIZERS else [*SANITIZERS]
    return max(abs(run(name, arguments)) for name in names)


def run(name: str, arguments: list[str]) -> int:
    """Build changed files with sanitizers, run the tests, and return pytest's exit status."""
    sanitizer, build = SANITIZERS[name], BUILD / name
    flags = {"MAX_JOBS": "2", **os.environ, "CFLAGS": sanitizer.flags, "LDFLAGS": sanitizer.flags}
    command = [sys.executable, "setup.py", "--quiet", "build", f"--build-base={build}", f"--build-lib={build / 'lib'}"]
    subprocess.run(command, cwd=ROOT, env=flags, check=True)
    found = [
        subprocess.check_output(["g++", f"-print-file-name={each}"], text=True).strip() for each in sanitizer.runtimes
    ]
    environment = {**os.environ, **sanitizer.options, "PYTHONPATH": str(build / "lib"), "LD_PRELOAD": " ".join(found)}
    check = f"import polycast; assert polycast.__file__.startswith({str(build)!r}), polycast.__file__"
    subprocess.run([sys.executable, "-c", check], cwd=build, env=environment, check=True)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *(arguments or sanitizer.tests)]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
