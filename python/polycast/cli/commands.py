"""The commands, and how each ends: what it prints, and with which status."""

import contextlib
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

import polycast
from polycast._compiled import DEVICES
from polycast._grammar.errors import PolicyError
from polycast.cli import bisect, ops, report, script, verify
from polycast.policy.policy import Policy
from polycast.policy.releases import releases
from polycast.policy.sides import diff

DONE, FOUND, WRONG, INTERRUPTED = 0, 1, 2, 130


class Command(NamedTuple):
    """A command: what stands in the list of commands, and what runs it."""

    usage: str
    help: str
    run: Callable[[ArgumentParser, Sequence[str]], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, 1 for problems that it found, 2 for what cannot be done, or 130."""
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    status = DONE
    try:
        status = _run(words)
    except SystemExit as end:  # of argparse, and of scripts
        status = end.code if isinstance(end.code, int) else DONE if end.code is None else FOUND
        if isinstance(end.code, str):
            _complain(end.code)
    except ValueError as error:
        _complain(str(error) if isinstance(error, PolicyError) else f"error: {error}")
        status = WRONG
    except OSError as error:
        status = _unwritten(error)
    except KeyboardInterrupt:
        status = INTERRUPTED
    return _flushed(status)


def _run(words: list[str]) -> int:
    if not words:
        print(report.text())
        return DONE
    name = "help" if words[0] in ("-h", "--help") else words[0]
    if name == "--version":
        print(f"polycast {polycast.__version__}, torch {torch.__version__}")
        return DONE
    command = COMMANDS.get(name)
    if command is None:  # an op, or a mistake
        name, words, command = "op", ["op", *words], COMMANDS["op"]
    return command.run(_parser(name, command), words[1:])


def _op(parser: ArgumentParser, words: Sequence[str]) -> int:
    parser.add_argument("ops", nargs="*", metavar="OP", help="such as conv2d, pow.Tensor_Scalar or torch.nn.LSTM")
    parser.add_argument("-d", "--device", help="look at this device alone; without an OP, list its rules")
    options = parser.parse_args(words)
    if not options.ops and options.device is None:
        parser.error("the following arguments are required: OP, or --device")
    print("\n\n".join(ops.text(name, options.device) for name in options.ops) or ops.rules_of(options.device))
    return DONE


def _diff(parser: ArgumentParser, words: Sequence[str]) -> int:
    parser.epilog = f"The releases are {', '.join(releases())}; the devices are {', '.join(DEVICES)}."
    parser.add_argument(
        "sides",
        nargs=2,
        metavar="SIDE",
        help="two of: built-in, for the built-in policy; a torch release, as in torch-2.11; a file of rules over the "
        "built-in policy; or two devices",
    )
    parser.add_argument("-d", "--device", help="look at this device alone")
    options = parser.parse_args(words)
    one, other = options.sides
    print(diff(one, other, options.device))
    return DONE


def _check(parser: ArgumentParser, words: Sequence[str]) -> int:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a YAML file of rules; - is the standard input")
    options = parser.parse_args(words)
    status = DONE
    for path in options.files:
        try:
            Policy.load("/dev/stdin" if path == "-" else path)
        except PolicyError as error:
            _complain(str(error))
            status = FOUND
    if status == DONE:
        print(f"no problems in {', '.join(options.files)}")
    return status


def _trace(parser: ArgumentParser, words: Sequence[str]) -> int:
    script.add_arguments(parser)
    return script.run(parser, words)


def _verify(parser: ArgumentParser, words: Sequence[str]) -> int:
    verify.add_arguments(parser)
    return verify.run(parser, words)


def _bisect(parser: ArgumentParser, words: Sequence[str]) -> int:
    bisect.add_arguments(parser)
    return bisect.run(parser, words)


def _help(parser: ArgumentParser, words: Sequence[str]) -> int:
    parser.add_argument("command", nargs="?", choices=COMMANDS, metavar="COMMAND")
    name = parser.parse_args(words).command
    if name is not None and name != "help":
        return COMMANDS[name].run(_parser(name, COMMANDS[name]), ["--help"])
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"  {command.usage:{width}}  {command.help}" for command in COMMANDS.values()]
    alone = f"  {'':{width}}  alone: what a report of a bug needs"
    print("\n".join(["usage: polycast [COMMAND]", "", alone, *lines, f"  {'--version':{width}}  show versions"]))
    return DONE


COMMANDS = {
    "op": Command("[op] OP...", "the rules of ops on every device: conv2d, pow.Tensor_Scalar, torch.nn.LSTM", _op),
    "diff": Command("diff SIDE SIDE", "what two policies, torch releases or devices do differently", _diff),
    "trace": Command("trace SCRIPT ...", "run a script, and show what autocasting did to its calls", _trace),
    "check": Command("check FILE...", "the problems of files of rules", _check),
    "verify": Command("verify [PART...]", "check built-in rules and sync-free steps on a device that is here", _verify),
    "bisect": Command("bisect -- COMMAND...", "find the rules that make a command fail", _bisect),
    "help": Command("help [COMMAND]", "this list, or the arguments of a command", _help),
}


class _Parser(ArgumentParser):
    """A parser whose help fails where it cannot be written."""

    def print_help(self, file: Any = None) -> None:
        print(self.format_help(), end="", file=file)


def _parser(name: str, command: Command) -> ArgumentParser:
    text = f"{command.help[0].upper()}{command.help[1:]}."
    return _Parser(f"polycast {name}", description=text, formatter_class=RawDescriptionHelpFormatter)


def _unwritten(error: OSError) -> int:
    _complain(f"error: {error.filename or 'the output'} cannot be written: {(error.strerror or str(error)).lower()}")
    return FOUND


def _complain(text: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError):  # standard error may be full, too
            print(text, file=sys.stderr, flush=True)


def _flushed(status: int) -> int:
    """Write what is still to be written; return the status, which is another one if that fails."""
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is None:
                raise OSError("it is closed")
            stream.flush()
        except OSError as error:
            with contextlib.suppress(OSError):  # Python must not try again at its exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            if not isinstance(error, BrokenPipeError):  # of a reader such as `head`, which has read enough
                status = status or _unwritten(error)
    return status
