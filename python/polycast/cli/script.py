"""A script or module run under a trace, from the command line."""

import argparse
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from polycast.debug.tracing import trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--table", action="store_true", help="print a line for each call, not for each op")
    parser.add_argument("--lines", action="store_true", help="print the program's line for each call as well")
    parser.add_argument("--limit", metavar="CALLS", type=int, default=1_000_000, help="(default: %(default)s)")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script", help="the script, and its own arguments after it; the table goes to stderr")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS).required = False


def run(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Run the script; return its exit status.

    Raises:
        ValueError: There is no such script or module, or an argument is wrong.
        SystemExit: Of the script.
    """
    asked = parser.parse_args(words)
    sys.path[0] = str(Path.cwd() if asked.module else Path(asked.script).resolve().parent)
    _check(asked.script, module=asked.module)
    record = trace(lines=asked.lines, limit=asked.limit)
    # The script takes an interrupt and a closed pipe as the interpreter does.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sys.argv = [asked.script, *asked.arguments]
    run_it = partial(runpy.run_module, alter_sys=True) if asked.module else runpy.run_path
    try:
        with record:
            run_it(asked.script, run_name="__main__")
    except SystemExit:
        _report(record, asked)
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            print("\ninterrupted; until then:", file=sys.stderr)
        else:
            error.__traceback__ = _of_script(error.__traceback__)
            sys.excepthook(type(error), error, error.__traceback__)
        if record.calls:  # a script that fails before its first call has nothing to sum up
            _report(record, asked)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    _report(record, asked)
    return 0


def _check(script: str, *, module: bool) -> None:
    """Raise for what would fail later."""
    is_file = Path(script).is_file()
    if not module and not is_file:
        is_python = Path(script).name.startswith("python")
        raise ValueError(
            f"there is no script '{script}'; {'leave it out' if is_python else 'with -m it would be a module'}"
        )
    if module and is_file:
        raise ValueError(f"'{script}' is a script; leave -m out, which is for the name of a module")
    if module and not _is_module(script):
        raise ValueError(f"there is no module '{script}'")
    if not (module or os.access(script, os.R_OK)):
        raise ValueError(f"{script} cannot be read; see its permissions")


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # of a package that is not there, and of what is no name
        return False


def _of_script(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames that lead to the script: ours, and those of runpy and of imports."""
    while trace is not None and (
        trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__)
        or trace.tb_frame.f_code.co_filename.startswith("<frozen ")
    ):
        trace = trace.tb_next
    return trace


def _report(record: trace, asked: argparse.Namespace) -> None:
    text = record.table() if record.calls and (asked.table or asked.lines) else str(record)
    if sys.stderr is not None:
        print(f"\n{text}", file=sys.stderr)
