"""The command line: `python -m polycast` shows what is installed, `python -m polycast OP` an op's row of the policy,
`python -m polycast diff A B` what two policies, torch releases or devices do differently, and
`python -m polycast trace script.py` what autocasting does to a script."""

import argparse
import os
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, version

import torch

import polycast
from polycast import backends, policy
from polycast._compiled import DEVICES
from polycast._grammar.categories import UNLISTED
from polycast._grammar.errors import PolicyError
from polycast._suggest import suggestion
from polycast._text_table import lines_of, wrapped
from polycast.debug import script
from polycast.policy import operators
from polycast.policy.releases import is_release, releases
from polycast.policy.rules import BUILT_IN
from polycast.policy.sides import diff
from polycast.scope import process

COMMANDS = ("diff", "trace")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    if process.unusable and words[:1] != ["diff"]:  # which looks at the files that it is given
        print(f"error: {process.unusable}", file=sys.stderr)
        return 1
    if words[:1] == ["trace"] and len(words) > 1:
        return script.main(words[1:])
    try:
        print(_diff(words[1:]) if words[:1] == ["diff"] and len(words) > 1 else _shown(words))
        sys.stdout.flush()
    except ValueError as error:
        print(error if isinstance(error, PolicyError) else f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head` has read enough; Python must not try to print the rest at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    return 0


def _shown(words: list[str]) -> str:
    parser = argparse.ArgumentParser(
        prog="python -m polycast",
        description="Show the autocast policy that is installed.",
        epilog="python -m polycast diff A B shows what two policies, torch releases or devices do differently; "
        "python -m polycast trace SCRIPT runs a script and shows what autocasting did to it; more in: "
        "python -m polycast diff --help, python -m polycast trace --help. Alone, diff and trace are the ATen ops.",
    )
    parser.add_argument(
        "op",
        nargs="*",
        help="an ATen op, such as conv2d or pow.Tensor_Scalar, or what people call, such as torch.nn.LSTM",
    )
    ops = parser.parse_args(words).op
    if len(ops) > 1:
        close = suggestion(ops[0], COMMANDS) or f"; the commands are {' and '.join(COMMANDS)}"
        raise ValueError(f"one op is shown at a time, and '{' '.join(ops)}' is no command{close}")
    if ops and (ops[0] in DEVICES or is_release(ops[0])):
        raise ValueError(f"'{ops[0]}' is no op; for a release or a device: python -m polycast diff {ops[0]} OTHER")
    return _overview() if not ops else _op(ops[0])


def _diff(words: list[str]) -> str:
    parser = argparse.ArgumentParser(
        prog="python -m polycast diff",
        description="Show what two sides do differently, with the reasons that are known.",
        epilog=f"The releases are {', '.join(releases())}; the devices are {', '.join(DEVICES)}.",
    )
    parser.add_argument(
        "sides",
        nargs="*",
        metavar="SIDE",
        help="two of: built-in, which is the built-in policy; a torch release, as in torch-2.11; a file of rules; or "
        "two devices",
    )
    parser.add_argument("--device", help="look at this device alone")
    options = parser.parse_args(words)
    if len(options.sides) != 2:
        given = f"was given {', '.join(options.sides)}" if options.sides else "was given none"
        raise ValueError(f"diff takes two sides, as in: diff torch-2.11 torch-2.12; it {given}")
    one, other = options.sides
    return diff(one, other, options.device)


def _overview() -> str:
    count = Counter(rule.device for rule in BUILT_IN)
    installed = polycast.installed()
    rows: list[tuple[str, ...]] = [("device", "dispatch key", "lower precision", "rows", "kernels")]
    for device in DEVICES.values():
        dtypes = ", ".join(str(dtype).removeprefix("torch.") for dtype in device.lower_precision)
        state = "installed" if device.name in installed else _why_not(device.name)
        rows.append((device.name, device.dispatch_key, dtypes, str(count[device.name]), state))
    versions = [("polycast", polycast.__version__), ("torch", str(torch.__version__)), *_backend_versions()]
    lines = [", ".join(f"{name} {number}" for name, number in versions), "", *lines_of(rows)]
    if policy.in_force():
        lines += ["", f"{process.ENVIRONMENT_POLICY} decides over these rows: python -m polycast OP shows how"]
    return "\n".join(lines)


def _why_not(column: str) -> str:
    late = [package for package, types in backends.LATE.items() if backends.device_type_of(column) in types]
    return f"when {late[0]} is imported" if late else "on request"


def _backend_versions() -> list[tuple[str, str]]:
    found = []
    for package in backends.LATE:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            continue
    return found + [(name, number) for name in ("cuda", "hip", "xpu") if (number := getattr(torch.version, name, None))]


def _op(name: str) -> str:
    rows = policy.rules(name)
    if not rows:
        ops = {target.op for target in operators.targets(name)}
        return "\n".join([f"{name}: unlisted on every device; it runs in the dtype of its inputs.", *_in_force(ops)])
    cells: dict[str, dict[str, str]] = {}
    notes: dict[str, list[str]] = {}
    for row in rows:
        full = row.name
        cells.setdefault(full, {})[row.device] = row.category
        if row.note:
            notes.setdefault(f"{full}: {row.note}", []).append(row.device)
    table = [("op", "category", "devices")]
    for op, line in cells.items():
        for category in dict.fromkeys(line.get(device, UNLISTED) for device in DEVICES):
            devices = [device for device in DEVICES if line.get(device, UNLISTED) == category]
            table.append((op, category, "all" if len(devices) == len(DEVICES) else ", ".join(devices)))
    lines = lines_of(wrapped(table))
    if len({row.op for row in rows}) > 1:
        lines = [f"{name} runs these ops, each on some device or for some arguments:", "", *lines]
    footnotes = [f"{note} ({', '.join(devices)})" for note, devices in notes.items()]
    if any(category == UNLISTED for _, category, _ in table):
        footnotes.insert(0, f"{UNLISTED}: no rule names it there; it runs in the dtype of its inputs.")
    return "\n".join([*lines, *([""] if footnotes else []), *footnotes, *_in_force({row.op for row in rows})])


def _in_force(ops: set[str]) -> list[str]:
    """Return what POLYCAST_POLICY's rules decide over the rows of these ops."""
    held: dict[tuple[str, str], list[str]] = {}
    for rule in policy.in_force().by_overload():
        if rule.op in ops:
            held.setdefault((rule.name, rule.category), []).append(rule.device)
    rows = [(*key, "all" if columns == [*DEVICES] else ", ".join(columns)) for key, columns in held.items()]
    head = ("op", "category", "devices")
    title = f"{process.ENVIRONMENT_POLICY} decides over these:"
    return ["", title, "", *lines_of(wrapped([head, *rows]))] if rows else []


if __name__ == "__main__":
    sys.exit(main())
