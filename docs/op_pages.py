"""The generated pages of the site: one for each op, their index, the changes per release, and the command line."""

from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from functools import partial
from inspect import cleandoc
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from jinja2 import FileSystemLoader
from polycast.cli import commands
from polycast.policy.categories import UNLISTED
from polycast.policy.diff import diff
from polycast.policy.releases import releases
from polycast.policy.rules import join_name

from codegen.model import Op, Overload
from codegen.parse import read_policy
from codegen.render import cited, environment
from codegen.schemas import Schemas

HERE = Path(__file__).parent
POLICY = cited(read_policy(HERE.parent / "policy.yaml", "policy.yaml", Schemas.installed()))


class Line(NamedTuple):
    """Overloads of an op that have the same category on the same devices."""

    names: tuple[str, ...]
    category: str
    torch: str
    devices: tuple[str, ...]
    note: str | None = None


def lines(op: Op) -> list[Line]:
    """Return the category of each overload of an op on each device, unlisted devices last."""
    found: dict[Line, list[str]] = {}
    for rule, devices in op.groups():
        line = Line((), rule.category.value, str(rule.torch), devices, rule.note)
        found.setdefault(line, []).append(rule.schema_name)
    for overload in dict.fromkeys(rule.overload for rule in op.rules):
        line = Line((), UNLISTED, "", tuple(_unlisted(op, overload)))
        if line.devices:
            found.setdefault(line, []).append(join_name(op.name, overload.name))
    return [line._replace(names=tuple(names)) for line, names in found.items()]


def _unlisted(op: Op, overload: Overload) -> Iterator[str]:
    listed = {rule.device for rule in op.rules if rule.overload == overload}
    yield from (device.name for device in POLICY.devices if device.name not in listed)


def generated() -> dict[str, str]:
    """Return the text of each generated page, by its path below docs/."""
    texts = environment()
    texts.loader = FileSystemLoader(HERE)
    template = texts.get_template("op.md.j2")
    page = partial(template.render, policy=POLICY, lines=lines, UNLISTED=UNLISTED)
    pages = {f"ops/{op.name}.md": page(op=op) for op in POLICY.ops}
    return {**pages, "ops/index.md": page(op=None), "releases.md": _history(), "cli.md": _command_line()}


def _history() -> str:
    """Return the page of the rules that each PyTorch release changed."""
    parts = [
        f"## {new}\n\n```text\n{diff(old, new)}\n```\n\n`polycast diff {old} {new}` prints this text.\n"
        for old, new in pairwise(releases())
    ]
    head = """
    # Changes per PyTorch release

    The autocast rules that each PyTorch release changed, as recorded from its wheels. `polycast.Policy("torch-2.9")`
    casts as PyTorch 2.9 does, under any supported PyTorch.
    """
    return "\n".join([cleandoc(head), "", *reversed(parts)])


def _command_line() -> str:
    """Return the page with the help of every command."""

    def shown(*words: str) -> str:
        with redirect_stdout(StringIO()) as stdout, suppress(SystemExit):
            commands.main([*words, "--help"])
        return f"```text\n{stdout.getvalue().strip()}\n```\n"

    parts = [f"## {name}\n\n{shown(name)}" for name in commands.COMMANDS]
    return "\n".join(["# Command line\n\n`polycast` and `python -m polycast` are the same program.\n", shown(), *parts])


def write() -> None:
    """Write the changed pages, so that Sphinx reads only these again, and remove the pages of removed ops."""
    pages = generated()
    for name, text in pages.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in (HERE / "ops").glob("*.md"):
        if f"ops/{path.name}" not in pages:
            path.unlink()
