"""`python -m polycast` and the console script `polycast`: the command line."""

import sys

from polycast.command_line.commands import main

if __name__ == "__main__":
    sys.exit(main())
