"""`python -m polycast` and the console script `polycast`: the command line."""

import signal
import sys

from polycast.cli import commands


def main() -> int:
    """Run the command line. A closed pipe ends the process without a traceback, as it ends a program in C."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return commands.main()


if __name__ == "__main__":
    sys.exit(main())
