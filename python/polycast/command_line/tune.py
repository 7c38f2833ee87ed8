"""A policy for a command, found and proved from the command line, and measured again."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from polycast import _invocation
from polycast.command_line.output import check_file
from polycast.debug.progress import Progress
from polycast.debug.tuning import tuning
from polycast.debug.tuning.command import LOSS, SEED, Command
from polycast.debug.tuning.proof import INTERRUPTED, Proof
from polycast.debug.tuning.tuned import facts_of
from polycast.debug.tuning.verifying import verified

_ENDING = f"""
The command is any program that imports polycast and prints its losses; {SEED} in it stands for the seed of a run. It
runs as a whole many times: in float32, under the built-in policy, and under the plans that its evidence proposes.

The status is 0; with --verify it is 1 if the promise of the file does not hold; 2 if nothing can be measured, and 130
after Ctrl-C, which keeps the best that is proved until then."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.usage = "polycast tune [OPTIONS] -- COMMAND..."
    parser.epilog = _ENDING
    parser.add_argument("--loss", metavar="REGEX", default=LOSS, help="finds the loss in a line, as its first group")
    parser.add_argument("--seeds", metavar="N", type=int, help=f"how many seeds (default: {tuning.SEEDS})")
    parser.add_argument("--steps", metavar="N", type=int, help="how many losses of a run count (default: all)")
    parser.add_argument("--dtype", help="the lower precision of the program's regions (default: bfloat16)")
    parser.add_argument(
        "--tolerance", metavar="X", type=float, help="how many times the spread over the seeds the loss may be higher"
    )
    parser.add_argument("--budget", metavar="TIME", help="such as 90s, 10min or 1h (default: as long as it takes)")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, default=Path("tuned.yaml"), help="(default: %(default)s)"
    )
    parser.add_argument("--plot", metavar="FILE", type=Path, help="a picture of what was tried, too")
    parser.add_argument("--verify", metavar="FILE", type=Path, help="measure again what this file of rules promises")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help=argparse.SUPPRESS)


def run(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Tune or verify; return the exit status.

    Raises:
        ValueError: An argument is wrong, or the command cannot be measured.
        OSError: A file cannot be written.
    """
    asked = parser.parse_args(words)
    command = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    if not command:
        raise ValueError("tune needs a command, as in: polycast tune -- python train.py --seed {seed}")
    facts = facts_of(asked.verify) if asked.verify is not None else {}
    seeds = tuning.seeds_of(asked.seeds if asked.seeds is not None else facts.get("seeds", tuning.SEEDS))
    if len(seeds) > 1 and not any(SEED in word for word in command):
        raise ValueError(
            f"the command has no {SEED}, so all its runs would be the same; put it where the program takes its seed, "
            f"as in --seed {SEED}, or say --seeds 1"
        )
    times = asked.tolerance if asked.tolerance is not None else float(facts.get("tolerance", tuning.TOLERANCE))
    dtype = tuning.lower_precision(asked.dtype or facts.get("dtype", "bfloat16"))
    program = Command(command, asked.loss, asked.steps)
    if asked.verify is None:
        for path in filter(None, (asked.output, asked.plot)):
            check_file(path)
    elif asked.budget is not None:
        raise ValueError("--verify has no budget: it takes what its runs take; leave --budget out, or say --seeds 1")
    if _invocation.IS_COMMAND_LINE:  # which else ends at once
        signal.signal(signal.SIGINT, signal.default_int_handler)
    proof = Proof(program, seeds, times, None, tuning.seconds_of(asked.budget), Progress("tune"))

    if asked.verify is not None:
        found = verified(asked.verify, proof, dtype)
        print(found)
        return 0 if found.holds else 1
    try:
        tuned = tuning.searched(proof, dtype, {"command": " ".join(command)})
    except KeyboardInterrupt:
        print("interrupted before float32 had run: nothing is proved, and no file is written", file=sys.stderr)
        return 130
    tuned.save(asked.output)
    print(tuned)
    if asked.plot is not None:
        tuned.plot(asked.plot)
    print(f"\n{asked.output} has the rules; use them by POLYCAST_POLICY={asked.output}", file=sys.stderr)
    return 130 if tuned.stopped == INTERRUPTED else 0
