"""The command ``polycast trace``, which runs a script or module under a trace."""

import runpy
import signal
import sys
from argparse import REMAINDER, SUPPRESS, ArgumentParser, Namespace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from polycast.debug.tracing import trace


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--table", action="store_true", help="print a line for each op with a rule in each module")
    parser.add_argument("--all", action="store_true", help="print a line for each call of any op")
    parser.add_argument(
        "--lines", action="store_true", help="print each call of an op with a rule, and the source line of the call"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="run the module with this name, like python -m")
    parser.add_argument("script", help="run this script with the arguments after it, and print the table to stderr")
    parser.add_argument("arguments", nargs=REMAINDER, help=SUPPRESS).required = False


def run(options: Namespace) -> int:
    """Run the script, print its trace, and return 1 if the script fails, otherwise 0.

    Raises:
        ValueError: If the script or module does not exist, or an argument is wrong.
        SystemExit, KeyboardInterrupt: If the script exits or is interrupted.
    """
    script = options.script
    sys.path[0] = str(Path.cwd() if options.module else Path(script).resolve().parent)
    if not (_is_module(script) if options.module else Path(script).is_file()):
        wanted, remedy = ("a module that Python can find", "name") if options.module else ("a Python file", "path")
        raise ValueError(f"script: expected {wanted}, got '{script}'; check the {remedy}")
    record = trace(lines=options.lines)
    if hasattr(signal, "SIGPIPE"):  # in the script, a closed pipe raises BrokenPipeError, as in any Python program
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    sys.argv = [script, *options.arguments]
    run_it = partial(runpy.run_module, alter_sys=True) if options.module else runpy.run_path
    failed = False
    try:
        with record:
            run_it(script, run_name="__main__")
    except Exception as error:
        failed = True
        error.__traceback__ = _of_script(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
    finally:  # The trace is printed even after an exit or an interrupt.
        if record.calls or not failed:
            print(f"\n{_text(record, options)}", file=sys.stderr)
    return int(failed)


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # the package does not exist, or the name is not valid
        return False


def _of_script(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this file, ``runpy`` and frozen imports that precede the script."""
    while trace is not None and (
        trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__)
        or trace.tb_frame.f_code.co_filename.startswith("<frozen ")
    ):
        trace = trace.tb_next
    return trace


def _text(record: trace, options: Namespace) -> str:
    if record.calls and (options.lines or options.all):
        return record.table(call for call in record.calls if options.all or call.is_ruled)
    return record.by_module() if record.calls and options.table else str(record)
