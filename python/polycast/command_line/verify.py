"""The promises on a device, checked from the command line."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from polycast import _invocation
from polycast._text_table import lines_of
from polycast.command_line.output import check_file
from polycast.debug.verification.findings import PROMISES, Verification
from polycast.debug.verification.verifying import PARTS, chosen_parts, device_here, facts_of
from polycast.debug.verification.verifying import run as verify

_ENDING = """
All of it takes about two minutes. Each part is printed, and the file is written again, as soon as the part is done.
What could not be checked is listed with its reason.

The status is 0 if no promise is broken, 1 if one is, 2 if nothing can be checked, and 130 after Ctrl-C."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = "\n".join(["The parts:", *lines_of([("", *item) for item in PROMISES.items()]), _ENDING])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("-d", "--device", help="such as cuda (default: the accelerator that torch finds, or the cpu)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all that was found to a file, too")


def run(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Verify; return the exit status.

    Raises:
        ValueError: There is no such device or part, or the file cannot be written.
        OSError: The file cannot be written after all.
    """
    asked = parser.parse_args(words)
    parts = chosen_parts(asked.parts or PARTS)
    if asked.json is not None:
        check_file(asked.json)
    device_type = device_here(asked.device)
    found = Verification(device_type, facts_of(device_type))
    if _invocation.IS_COMMAND_LINE:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    print(found.heading(), end="\n\n", flush=True)
    try:
        for part in verify(found, parts, lambda check: _show(f"{len(found.checks)} {check.part}: {check.name}")):
            _end(found, part, asked.json)
    except KeyboardInterrupt:
        for part in found.begun[-1:]:
            _end(found, part, None)
    if asked.json is not None:
        found.to_json(asked.json)
    print(found.verdict())
    return 130 if not found.complete else 1 if found.broken else 0


def _end(found: Verification, part: str, path: Path | None) -> None:
    """Print what a part found, and write all that was found until now."""
    _show("")
    print(found.table(part), end="\n\n", flush=True)
    if path is not None:
        found.to_json(path)


def _show(text: str) -> None:
    """Show what is done on the last line of a terminal, in place of what was there."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
