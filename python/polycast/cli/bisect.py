"""The rules that make a command bad, found from the command line."""

import argparse
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from polycast.cli.output import check_file
from polycast.debug import command
from polycast.debug.bisection import log
from polycast.debug.bisection.bisecting import Bisecting, ends_of
from polycast.debug.bisection.switches import Trial
from polycast.policy.sides import BUILT_IN_NAME

# What decides a search, as its log has it, with the defaults.
_DEFAULTS = {"good": "fp32", "bad": BUILT_IN_NAME, "repeat": 1, "command": []}
_ENDING = """
The command is run under rules between those of GOOD and BAD: any program that imports polycast. As for git bisect run,
its status says how it is: 0 is good, 1 to 127 is bad, but 125 cannot be tested. A status above 127, of a command that
a signal killed, ends the search, unless --killed-is-bad is given.

Rules are bad if any of their N runs is. If the command fails in a share p of its runs, bad rules are taken for good
with a probability of (1 - p) ** N: with p of one in three and N = 12, 0.8 %.

It finds ops. At its end it prints the call of polycast.debug.bisect that finds the module, too.

The status is 0 if the rules in FILE make the command good, 1 if the last run says that they do not, 2 if there is
nothing to search for, and 130 after Ctrl-C."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.usage = "polycast bisect [OPTIONS] -- COMMAND...\n       polycast bisect --resume LOG"
    parser.epilog = _ENDING
    policy = "a category, a release of torch, a file of rules, or built-in"
    parser.add_argument("--good", help=f"{policy} (default: {_DEFAULTS['good']})")
    parser.add_argument("--bad", help=f"as for --good (default: {_DEFAULTS['bad']})")
    parser.add_argument("--repeat", type=int, metavar="N", help="run the command N times under each rules (default: 1)")
    parser.add_argument("--killed-is-bad", action="store_true", help="take a status above 127 for bad")
    parser.add_argument("--output", metavar="FILE", type=Path, default=Path("polycast-bisect.yaml"))
    parser.add_argument("--log", metavar="FILE", type=Path, help="each run (default: polycast-bisect.jsonl)")
    parser.add_argument("--resume", metavar="LOG", type=Path, help="go on with a search, from its log")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")


def run(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Search; return the exit status.

    Raises:
        ValueError: An argument is wrong, or there is nothing to search for.
        OSError: A file cannot be written.
    """
    asked = parser.parse_args(words)
    search = _search(parser, asked)
    path = asked.resume or asked.log or Path("polycast-bisect.jsonl")
    resume = f"polycast bisect --resume {shlex.quote(str(path))}"
    ends = ends_of(search["good"], search["bad"])
    if asked.output.resolve() == path.resolve():
        raise ValueError(f"{path} cannot have both the log and the rules; name another file with --output")
    _check_new({"--output": asked.output} | ({} if asked.resume else {"--log": path}), resume)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the log says how to resume
    bisecting = Bisecting(
        lambda trial: _run(search["command"], trial),
        *(*ends, search["repeat"], path, search, _say),
        killed_is_bad=asked.killed_is_bad,
    )
    try:
        found = bisecting.run()
    except KeyboardInterrupt:
        _say(f"to go on: {resume}")
        return 130
    except ValueError:
        if not (asked.resume or bisecting.is_searching):
            path.unlink()
        raise
    found.policy.save(asked.output)
    print(found)
    print(f"The rules are in {asked.output}: POLYCAST_POLICY={asked.output} {shlex.join(search['command'])}")
    arguments = f"good={str(asked.output)!r}, bad={search['bad']!r}, repeat={search['repeat']}, model=model"
    print(f"In Python this finds the modules: polycast.debug.bisect(check, {arguments})")
    return 0 if found.proved else 1


def _say(line: str) -> None:
    """Print a line for each run that is done, apart from what is found."""
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def _search(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> dict[str, Any]:
    """Return what is searched for: what is asked for, else what the log says, else the defaults."""
    if asked.command[:1] == ["--"]:
        del asked.command[0]
    elif asked.command and asked.command[0].startswith("-"):
        parser.error(f"unrecognized arguments: {asked.command[0]}")
    if asked.resume and asked.log:
        parser.error("--resume goes on in the log that it names; leave --log out")
    before = log.read(asked.resume)[0] if asked.resume else {}
    given = {name: value for name in _DEFAULTS if (value := getattr(asked, name)) not in (None, [])}
    search = {name: {**_DEFAULTS, **before, **given}[name] for name in _DEFAULTS}
    if not search["command"]:
        parser.error("there is no command; write it behind --, as in: polycast bisect -- python train.py")
    return search


def _run(words: Sequence[str], trial: Trial) -> log.Run:
    """Run the command under some rules.

    Raises:
        ValueError: There is no such command.
    """
    with TemporaryDirectory(prefix="polycast-") as name:
        output = Path(name, "output")
        done = command.run(words, trial.policy, output)
        lines = command.last_lines(output)
    said = "\n  ".join([f"status {done.status}" + ("; its last lines:" if lines else ""), *lines])
    return log.Run(done.status, done.seconds, said)


def _check_new(files: Mapping[str, Path], resume: str) -> None:
    """Raise for files, by their options, that cannot be written or that would be replaced."""
    for path in files.values():
        check_file(path)
    taken = {option: str(path) for option, path in files.items() if path.is_file() and path.stat().st_size}
    if taken:
        remedy = f", or go on with the search: {resume}" if [*taken] == ["--log"] else ""
        paths, options = " and ".join(taken.values()), " and ".join(taken)
        raise ValueError(f"there is {paths} already; remove what is there, or name other files with {options}{remedy}")
