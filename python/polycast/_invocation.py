"""Whether this process is the command line, and how that takes an interrupt, a closed pipe and a failing import.

The package imports this module first. Nothing is printed then by an interrupt while torch is imported.
"""

import signal
import sys
from pathlib import Path
from types import TracebackType

_PACKAGE = __name__.partition(".")[0]
_SIGNALS = ("SIGINT", "SIGPIPE")


def _is_command_line() -> bool:
    """Return whether the process is `polycast` or `python -m polycast`, which import the package before they run.

    While Python looks for the module of -m, "-m" stands in the place of the first argument.
    """
    if sys.argv[:1] == ["-m"]:
        return sys.orig_argv[-len(sys.argv)].removeprefix("-m") == _PACKAGE
    return bool(sys.argv) and Path(sys.argv[0]).stem == _PACKAGE


def _print_import_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, ImportError):
        print(f"error: {error}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def _begin() -> None:
    """Let an interrupt and a closed pipe end the process, as those of a C program do, and print no traceback."""
    sys.excepthook = _print_import_error
    for name in _SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


def run_as_python() -> None:
    """Take signals and errors as the interpreter does, for a script that the process runs."""
    sys.excepthook = sys.__excepthook__
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


IS_COMMAND_LINE = _is_command_line()
if IS_COMMAND_LINE:
    _begin()
