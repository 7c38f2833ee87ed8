"""The checks on a device, run from the command line."""

import json
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path

from polycast._text_table import lines_of
from polycast.cli.files import require_folder
from polycast.verify import DESCRIPTIONS, verify

_ENDING = """
Checks that could not be made are listed with the reason.

The status is 0 if no check fails, 1 if one does, 2 if nothing can be checked, and 130 after Ctrl-C."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = "\n".join(["The parts:", *lines_of([("", *item) for item in DESCRIPTIONS.items()]), _ENDING])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(DESCRIPTIONS)} (default: all)")
    parser.add_argument("-d", "--device", help="such as cuda (default: the accelerator that torch finds, or the cpu)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the results of all checks to a file")


def run(options: Namespace) -> int:
    """Verify; return the exit status.

    Raises:
        ValueError: If there is no such device or part.
        OSError: If the file cannot be written.
    """
    if options.json is not None:
        require_folder(options.json)
    found = verify(options.device, options.parts or DESCRIPTIONS, lambda check: _show(f"{check.part}: {check.name}"))
    _show("")
    print(found)
    if options.json is not None:
        told = {**asdict(found), "checks": [check._asdict() for check in found.checks]}
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 1 if found.failed else 0


def _show(text: str) -> None:
    """Show a text on the last line of a terminal, instead of the text before."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
