"""The command `polycast verify`."""

import json
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path

from polycast._text_table import lines_of
from polycast.cli.files import require_folder
from polycast.verify import DESCRIPTIONS, verify

_ENDING = """
Checks that cannot run are listed with the reason.

Exit status:
  0    no check failed
  1    a check failed
  2    nothing can be checked
  130  Ctrl-C"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = "\n".join(["The parts:", *lines_of([("", *item) for item in DESCRIPTIONS.items()]), _ENDING])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(DESCRIPTIONS)} (default: all)")
    parser.add_argument("-d", "--device", help="a device type, such as cuda (default: the current accelerator, or cpu)")
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write the results of all checks to this file (default: none)"
    )


def run(options: Namespace) -> int:
    """Run the checks, and return the exit status.

    Raises:
        ValueError: If the device is not available, or there is no such part.
        OSError: If the file cannot be written.
    """
    if options.json is not None:
        require_folder(options.json)
    found = verify(options.device, options.parts or DESCRIPTIONS, lambda check: _show(f"{check.part}: {check.name}"))
    _show("")
    print(found)
    if options.json is not None:
        results = {**asdict(found), "checks": [check._asdict() for check in found.checks]}
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if found.failed else 0


def _show(text: str) -> None:
    """Replace the text on the last line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
