"""The command line: ``python -m polycast`` and the console script ``polycast``."""

import signal
import sys

from polycast.cli import commands


def main() -> int:
    """Run the command line, and return its exit status. A closed pipe ends the process without a traceback."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return commands.main()


if __name__ == "__main__":
    sys.exit(main())
