"""A planted check as a command, for polycast bisect: exit status 0 if it is good, else 1.

Usage: python -m tests.support.networks mlp
"""

import sys

from tests.support.networks.planted import PLANTED

if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name in PLANTED]
    if len(sys.argv) != 2 or not names:
        sys.exit(f"give one of {', '.join(PLANTED)}")
    sys.exit(not PLANTED[names[0]].make()[1]())
