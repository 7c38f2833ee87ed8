"""Functions that run code in a new Python process, or in forks of a new process."""

import json
import os
import subprocess
import sys
from pathlib import Path

DUMP = """
import hashlib, torch
def dump():
    names = sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    text = "".join(torch._C._dispatch_dump(name) for name in names)
    return len(names), hashlib.sha256(text.encode()).hexdigest()
"""


def run_python(*arguments: object, cwd: Path | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run Python in a new process, with arguments and additional environment variables, and return the process."""
    command, variables = [sys.executable, *map(str, arguments)], {**os.environ, **environment}
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)


def python(code: str, **environment: str) -> str:
    """Run code in a new process and return its output. In the code, ``dump()`` returns the dispatcher's state.

    An error or output on stderr raises. Warnings are errors, except for PyTorch's warning if NumPy is not installed.
    """
    options = ("-W", "error", "-W", "ignore:Failed to initialize NumPy", "-c", DUMP + code)
    run = run_python(*options, cwd=None, **{"PJRT_DEVICE": "CPU", **environment})
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    return run.stdout


# This program runs the blocks of each program in `PROGRAMS` in a fork, because importing `torch` takes longer than most
# blocks. It prints the outputs or the error. A warning that a block does not print is an error.
FORKS = """
import contextlib, io, json, os, sys, traceback, warnings
import polycast, torch

def run(blocks):
    names, printed = {"__name__": "__main__"}, []
    for block in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as stdout, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            exec(compile(block, "block", "exec"), names)
        printed.append(stdout.getvalue())
        assert all(str(warning.message) in printed[-1] for warning in caught), caught[0].message
    return printed

found = {}
for name, blocks in PROGRAMS.items():
    end, start = os.pipe()
    if os.fork() == 0:
        try:
            result = run(blocks)
        except BaseException:
            result = traceback.format_exc()
        with os.fdopen(start, "w") as file:
            json.dump(result, file)
        os._exit(0)
    os.close(start)
    with os.fdopen(end) as file:
        found[name] = file.read()
    os.wait()
print(json.dumps({name: json.loads(text or '"the process died"') for name, text in found.items()}))
"""


def printed_by(programs: dict[str, list[str]], **environment: str) -> dict[str, list[str] | str]:
    """Return the outputs of each program's blocks, or the program's error."""
    found: dict[str, list[str] | str] = json.loads(python(f"PROGRAMS = {programs!r}\n{FORKS}", **environment))
    return found
