"""A script or module run under a trace, from the command line."""

import argparse
import runpy
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from polycast.debug.tracing import trace


def main(arguments: Sequence[str]) -> int:
    """Run the command `python -m polycast trace`; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m polycast trace",
        description="Run a script as it is, and print at its end what autocasting did to its calls, on stderr.",
    )
    parser.add_argument("--by-op", action="store_true", help="print a line for each op, too")
    parser.add_argument("--ruled", action="store_true", help="print a line for each call that took a rule, too")
    parser.add_argument("--table", action="store_true", help="print a line for each call, too")
    parser.add_argument(
        "--lines", action="store_true", help="show the program's line for each call; alone as with --ruled"
    )
    parser.add_argument("--json", metavar="PATH", type=Path, help="write the calls to a file")
    parser.add_argument("--limit", metavar="CALLS", type=int, default=1_000_000, help="(default: %(default)s)")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script", help="the script, and its own arguments after it")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS).required = False
    asked = parser.parse_args(arguments)
    if not asked.module and not Path(asked.script).is_file():
        print(f"error: there is no script '{asked.script}'; with -m it would be a module", file=sys.stderr)
        return 2
    if asked.module and Path(asked.script).is_file():
        print(f"error: '{asked.script}' is a script; leave -m out, which is for the name of a module", file=sys.stderr)
        return 2
    if asked.module and find_spec(asked.script) is None:
        print(f"error: there is no module '{asked.script}'", file=sys.stderr)
        return 2
    if asked.json is not None and not asked.json.resolve().parent.is_dir():
        parser.error(f"there is no folder for {asked.json}")
    try:
        record = trace(lines=asked.lines, limit=asked.limit)
    except ValueError as error:
        parser.error(str(error))
    sys.argv = [asked.script, *asked.arguments]
    try:
        with record:
            _run(asked.script, module=asked.module)
    except KeyboardInterrupt:
        print("\ninterrupted; until then:", file=sys.stderr)
        return 130
    finally:
        # A script that fails before its first call has nothing to sum up.
        if record.calls or sys.exc_info()[0] is None:
            _report(record, asked)
    return 0


def _run(script: str, *, module: bool) -> None:
    """Run as the interpreter would have."""
    if module:
        sys.path[0] = str(Path.cwd())
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(script).resolve().parent)
        runpy.run_path(script, run_name="__main__")


def _report(record: trace, asked: argparse.Namespace) -> None:
    parts = ["", str(record.summary())]
    parts += ["", str(record.by_op())] if asked.by_op and record.calls else []
    shows_calls = asked.table or asked.ruled or (asked.lines and asked.json is None)
    parts += ["", record.table(ruled=not asked.table)] if shows_calls else []
    print("\n".join(parts), file=sys.stderr)
    if asked.json is not None:
        record.to_json(asked.json)
