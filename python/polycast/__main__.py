"""`python -m polycast` and the console script `polycast`: the command line."""

import signal
import sys

from polycast.cli import commands


def main() -> int:
    """Run the command line. An interrupt or a closed pipe ends the process without a traceback, as a C program."""
    for name in ("SIGINT", "SIGPIPE"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    return commands.main()


if __name__ == "__main__":
    sys.exit(main())
