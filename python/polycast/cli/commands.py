"""The commands, their exit statuses and their errors."""

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import torch

import polycast
from polycast import collect_env, policy
from polycast._extension import DEVICES
from polycast.cli import bisect, script, verify
from polycast.policy.categories import UNLISTED
from polycast.policy.diff import LEFT_ALONE, diff
from polycast.policy.errors import PolicyError
from polycast.policy.op_names import asked_keys, device_named
from polycast.policy.policy import Policy
from polycast.policy.query import of_release
from polycast.policy.releases import releases
from polycast.policy.rules import Rules, qualified

_ENDING = """
A first word that is not a command is an op, as in: polycast softmax. Without arguments, polycast prints versions and
other facts for a bug report.

Exit status:
  0    success
  1    the command found problems
  2    the command cannot run
  130  Ctrl-C"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Raises:
        SystemExit: If argparse or a traced script raises it.
    """
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    try:
        if not words:
            print(collect_env.report())
            return 0
        if words[0] == "help":
            words = [*words[1:], "--help"]
        elif words[0] not in (*COMMANDS, "-h", "--help", "--version"):
            if meant := get_close_matches(words[0], COMMANDS, 1, 0.75):
                raise ValueError(f"unknown command '{words[0]}'; did you mean '{meant[0]}'?")
            words = ["op", *words]
        options = parser().parse_args(words)
        status: int = options.run(options)
        return status
    except (ValueError, OSError) as error:
        print(error if isinstance(error, PolicyError) else f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def parser() -> ArgumentParser:
    """Return the parser of all commands."""
    whole = ArgumentParser("polycast", epilog=_ENDING, formatter_class=RawDescriptionHelpFormatter)
    version = f"polycast {polycast.__version__}, torch {torch.__version__}"
    whole.add_argument("--version", action="version", version=version)
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        text = f"{command.help[0].upper()}{command.help[1:]}."
        part = commands.add_parser(
            name, help=command.help, description=text, formatter_class=RawDescriptionHelpFormatter
        )
        command.add_arguments(part)
        part.set_defaults(run=command.run, parser=part)
    return whole


class Command(NamedTuple):
    """A command with its help, its arguments, and the function that runs it."""

    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


def _add_op(parser: ArgumentParser) -> None:
    parser.add_argument(
        "ops", nargs="*", metavar="OP", help="an op, such as conv2d, pow.Tensor_Scalar or torch.nn.LSTM"
    )
    parser.add_argument("-d", "--device", help="show only this device; without an OP, list its rules")
    parser.add_argument("--torch", metavar="RELEASE", help="show the rules of a PyTorch release, such as 2.11")


def _op(options: Namespace) -> int:
    if not options.ops and options.device is None:
        options.parser.error("the following arguments are required: OP, or --device")
    device = None if options.device is None else device_named(options.device)
    asked = policy.current() if options.torch is None else of_release(options.torch)
    print("\n\n".join(_text(op, device, asked) for op in options.ops) or policy.resolved(asked, device=options.device))
    return 0


def _text(op: str, device: str | None, asked: Policy) -> str:
    """Return the rules of an op, or of the ops that a public name runs, and the reasons for changes in PyTorch."""
    # These reasons are printed below, so the rules are printed without them.
    reasons = {reason for release in releases().values() for reason in release.reasons.values()}
    found = (rule for rule in asked.rules_on(op) if device in (None, rule.device))
    rules = Rules(rule._replace(note="") if rule.note in reasons else rule for rule in found)
    lines = [str(rules) or f"{op}: {UNLISTED} on {device or 'every device'}.", ""]
    if not rules:
        lines.append(LEFT_ALONE)
    elif device is None and len(rules) < len(DEVICES) * len({rule.name for rule in rules}):
        lines.append(f"On every other device it is {LEFT_ALONE}")
    ops = {key.partition(".")[0] for key in asked_keys(op)}
    for release in releases().values():
        changes = {name: reason for name, reason in release.reasons.items() if qualified(name.partition(".")[0]) in ops}
        lines += [f"{name}, {release.name}: {reason}" for name, reason in changes.items()]
    return "\n".join(lines).rstrip("\n")


def _add_diff(parser: ArgumentParser) -> None:
    parser.epilog = f"The releases are {', '.join(releases())}; the devices are {', '.join(DEVICES)}."
    sides = "two of: built-in, for the built-in policy; a release, as in torch-2.11; a category; or a policy file"
    parser.add_argument("sides", nargs=2, metavar="SIDE", help=sides)
    parser.add_argument("-d", "--device", help="show only this device")


def _diff(options: Namespace) -> int:
    print(diff(options.sides[0], options.sides[1], options.device))
    return 0


def _add_check(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a policy file; - reads the standard input")


def _check(options: Namespace) -> int:
    status = 0
    for path in options.files:
        try:
            Policy.load("/dev/stdin" if path == "-" else path)
        except PolicyError as error:
            print(error, file=sys.stderr)
            status = 1
    if status == 0:
        print(f"no problems in {', '.join(options.files)}")
    return status


COMMANDS = {
    "op": Command("show the rules of ops on every device: conv2d, pow.Tensor_Scalar, torch.nn.LSTM", _add_op, _op),
    "diff": Command("show the differences between two policies or PyTorch releases", _add_diff, _diff),
    "trace": Command(
        "run a script, and show the dtypes in which autocast ran its ops", script.add_arguments, script.run
    ),
    "check": Command("validate policy files", _add_check, _check),
    "verify": Command("check built-in rules and sync-free steps on a device", verify.add_arguments, verify.run),
    "bisect": Command("find the rules that make a command fail", bisect.add_arguments, bisect.run),
}
