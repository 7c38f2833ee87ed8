"""Runs code in a fresh Python process."""

import os
import subprocess
import sys

DUMP = """
import hashlib, torch
def dump():
    names = sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    text = "".join(torch._C._dispatch_dump(name) for name in names)
    return len(names), hashlib.sha256(text.encode()).hexdigest()
"""


def python(code: str, **environment: str) -> str:
    """Run code in a fresh process and return what it prints. In there `dump()` returns the dispatcher's state.

    Anything on stderr fails, and warnings are errors, but for torch's own where NumPy is not installed.
    """
    run = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:Failed to initialize NumPy", "-c", DUMP + code],
        capture_output=True,
        text=True,
        env={**os.environ, "PJRT_DEVICE": "CPU", **environment},
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    return run.stdout
