"""The parser and the functions of the commands, and their exit statuses."""

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from difflib import get_close_matches

import torch

import polycast
from polycast import collect_env, policy
from polycast._extension import DEVICES
from polycast._text_table import lines_of
from polycast.cli import bisect, script
from polycast.devices import device_type_of
from polycast.policy.categories import UNLISTED
from polycast.policy.diff import LEFT_ALONE, diff
from polycast.policy.errors import PolicyError
from polycast.policy.op_names import device_named
from polycast.policy.policy import Policy
from polycast.policy.query import of_release
from polycast.policy.releases import releases
from polycast.policy.rules import Rules
from polycast.verify import DESCRIPTIONS, verify

COMMANDS = ("op", "diff", "trace", "check", "verify", "bisect")
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
        SystemExit: If argparse or a traced script exits.
    """
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    try:
        if not words:
            print(collect_env.report())
            return 0
        known = (*COMMANDS, "-h", "--help", "--version")
        if words[0] not in known:
            meant = get_close_matches(words[0], known, 1, 0.75)
            if meant or words[0].startswith("-"):
                remedy = f"did you mean '{meant[0]}'?" if meant else "polycast --help lists the commands"
                raise ValueError(f"command: expected a command or an op, got '{words[0]}'; {remedy}")
            words = ["op", *words]
        options, unknown = parser().parse_known_args(words)
        if unknown:
            options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
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

    def add(name: str, run: Callable[[Namespace], int], text: str) -> ArgumentParser:
        description = f"{text[0].upper()}{text[1:]}."
        part = commands.add_parser(
            name, help=text, description=description, formatter_class=RawDescriptionHelpFormatter
        )
        part.set_defaults(run=run, parser=part)
        return part

    op = add("op", _op, "show the rules of ops, such as conv2d or torch.nn.LSTM, on every device")
    op.add_argument("ops", nargs="*", metavar="OP", help="show this op, such as conv2d or pow.Tensor_Scalar")
    op.add_argument("-d", "--device", help="show only this device; without an OP, list its rules")
    op.add_argument("--torch", metavar="RELEASE", help="show the rules of a PyTorch release, such as 2.11")

    differences = add("diff", _diff, "show the differences between two policies or PyTorch releases")
    differences.epilog = f"The releases are {', '.join(releases())}; the devices are {', '.join(DEVICES)}."
    sides = "compare two of: built-in, for the built-in policy; a release, as in torch-2.11; a category; a policy file"
    differences.add_argument("sides", nargs=2, metavar="SIDE", help=sides)
    differences.add_argument("-d", "--device", help="show only this device")

    script.add_arguments(add("trace", script.run, "run a script, and show the dtypes in which autocast ran its ops"))

    check = add("check", _check, "validate policy files")
    check.add_argument("files", nargs="+", metavar="FILE", help="validate this policy file; - reads the standard input")

    checks = add("verify", _verify, "check built-in rules and sync-free steps on a device")
    parts = "\n".join(f"  {line}" for line in lines_of([*DESCRIPTIONS.items()]))
    checks.epilog = f"The parts:\n{parts}\n\nThe exit status is 1 if a check failed."
    checks.add_argument("parts", nargs="*", metavar="PART", help=f"check {' or '.join(DESCRIPTIONS)} (default: all)")
    checks.add_argument("-d", "--device", help="check this device type (default: the current accelerator, or cpu)")

    bisect.add_arguments(add("bisect", bisect.run, "find the rules that make a command fail"))
    return whole


def _op(options: Namespace) -> int:
    if not options.ops and options.device is None:
        raise ValueError("op: expected an OP or --device, got neither; pass one, as in polycast op softmax")
    device = None if options.device is None else device_named(options.device)
    asked = policy.current() if options.torch is None else of_release(options.torch)
    print("\n\n".join(_text(op, device, asked) for op in options.ops) or policy.resolved(asked, device=options.device))
    return 0


def _text(op: str, device: str | None, asked: Policy) -> str:
    """Return the rules of an op, or of the ops that a public name runs."""
    rules = Rules(rule for rule in asked.rules_on(op) if device in (None, rule.device))
    if not rules:
        return f"{op}: {UNLISTED} on {device or 'every device'}.\n\n{LEFT_ALONE}"
    if device is None and len(rules) < len(DEVICES) * len({rule.name for rule in rules}):
        return f"{rules}\n\nOn every other device it is {LEFT_ALONE}"
    return str(rules)


def _diff(options: Namespace) -> int:
    print(diff(options.sides[0], options.sides[1], options.device))
    return 0


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


def _verify(options: Namespace) -> int:
    def show(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{text:.78}", end="", file=sys.stderr, flush=True)

    for part in DEVICES.keys() & options.parts:
        device = device_type_of(part)
        raise ValueError(f"PART: expected {' or '.join(DESCRIPTIONS)}, got '{part}'; write --device {device}")
    found = verify(options.device, options.parts or DESCRIPTIONS, lambda part, check: show(f"{part}: {check}"))
    show("")
    print(found)
    return 1 if found.failed else 0
