"""The pages that are generated, as Markdown, by their paths below docs/."""

import os
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from inspect import isbuiltin
from io import StringIO
from itertools import pairwise
from pathlib import Path
from pydoc import locate
from textwrap import dedent
from unittest import mock

import torch
from jinja2 import Environment, FileSystemLoader
from polycast._grammar.categories import UNLISTED
from polycast._grammar.names import join_name, split_name
from polycast._grammar.releases import ABSENT, changes
from polycast.command_line import commands
from polycast.policy.releases import releases
from polycast.policy.sides import LEFT_ALONE

from codegen.model import Op
from codegen.render import environment
from tests.support.snippets import page
from tools.docs import facts, sentences
from tools.docs.example import example
from tools.docs.facts import POLICY

NEWEST = [*releases()][-1].removeprefix("torch-")


def generated() -> dict[str, str]:
    """Return the text of each generated page."""
    pages = {f"ops/{op.name}.md": op_page(op) for op in POLICY.ops}
    return {**pages, "ops/index.md": index(), "releases.md": history(), "cli.md": command_line()}


@cache
def op_page(op: Op) -> str:
    """Return the page of an op."""
    first, *others = facts.sections(op)
    held = [line.category for section in (first, *others) for line in section.lines]
    widens = any(facts.computes_in_float32(name) for name in first.names)
    alone = LEFT_ALONE.partition(": ")[2].capitalize()
    meanings = {**{category.value: text for category, text in POLICY.sentences.items()}, UNLISTED: alone}
    return render(
        "op.md.j2",
        op=op,
        lead=sentences.lead(op, first),
        message=next((rule.message for rule in op.rules if rule.message), ""),
        why=sentences.why(first),
        first=first,
        others=[(section, sentences.difference(section, first), facts.reasons(section)) for section in others],
        reasons=facts.reasons(first),
        documents=POLICY.documents,
        manual=manual(op),
        meanings={category: text for category, text in meanings.items() if category in held},
        cells=" ".join(str(cell) for line in first.lines for cell in line.cells),
        runs=[
            *dict.fromkeys(inner.partition(".")[0] for name in first.names for inner in facts.calls()[1].get(name, ()))
        ],
        widens=widens,
        has_titles=any(held.document.title in source(op.name) for held in POLICY.documents),
        example=example(op),
        composites=facts.composites(op),
        timeline=facts.timeline(op),
        newest=NEWEST,
        source=source(op.name),
    )


def manual(op: Op) -> str:
    """Return the public name of an op that torch's documentation has a page for; empty if none surely has one."""
    patterns = (r"torch\.nn\.functional\.\w+", r"torch\.(linalg|fft)\.\w+", r"torch\.\w+", r"torch\.nn\.\w+")
    names = [name for pattern in patterns for name in op.public if re.fullmatch(pattern, name)]
    for name in sorted(names, key=lambda name: not op.name.endswith(name.rpartition(".")[2])):
        found = locate(name)
        if found.__doc__ and (not isbuiltin(found) or f"{name.rpartition('.')[2]}(" in found.__doc__):
            return name
    return ""


def index() -> str:
    """Return the list of all ops."""
    rows = []
    for op in sorted(POLICY.ops, key=lambda op: op.name.startswith("_")):
        rules: dict[str, list[str]] = {}
        differs = {device for section in facts.sections(op) for _, held in section.notes for device in held}
        for row in (row for section in facts.sections(op) for row in section.lines):
            rules.setdefault(row.category, []).extend(row.devices)
        names = [device.name for device in POLICY.devices]
        listed = {device for category, held in rules.items() if category != UNLISTED for device in held}
        rules = {category: [name for name in names if name in held] for category, held in rules.items()}
        rules[UNLISTED] = [name for name in rules.get(UNLISTED, []) if name not in listed]
        rows.append(
            {
                "name": op.name,
                "text": " ".join([op.name, *op.public, *facts.composites(op)]).lower(),
                "runs": [name.removeprefix("torch.") for name in facts.composites(op)],
                "rules": {category: held for category, held in rules.items() if held},
                "releases": [*dict.fromkeys(change.number for change in released() if change.page == op.name)],
                "differs": [name for name in names if name in differs],
            }
        )
    meanings = {category.value: sentence for category, sentence in POLICY.sentences.items()}
    numbers = [name.removeprefix("torch-") for name in releases()]
    return render(
        "ops.md.j2",
        rows=rows,
        devices=POLICY.devices,
        meanings=meanings,
        families=sentences.families(),
        categories=[category for category in [*meanings, UNLISTED] if any(category in row["rules"] for row in rows)],
        releases=[number for number in numbers if any(number in row["releases"] for row in rows)],
    )


@dataclass(frozen=True)
class Released:
    """What a release of torch does otherwise than the one before it, to an overload on devices."""

    name: str
    page: str  # the op, if it has a page
    devices: tuple[str, ...]
    old: str
    new: str
    number: str
    reason: str


@cache
def released() -> list[Released]:
    """Return the changes of each release; those that no device can meet are left out."""
    found = []
    pages = {op.name for op in POLICY.ops}
    for (old_name, old), (new_name, new) in pairwise(releases().items()):
        for change in changes({old_name: old, new_name: new}):
            (before, _), (after, _) = change.held
            if {before, after} != {ABSENT, UNLISTED}:
                name, page = join_name(change.op, change.overload), change.op if change.op in pages else ""
                number, reason = new_name.removeprefix("torch-"), new.reasons.get(name, "")
                found.append(Released(name, page, change.devices, before, after, number, reason))
    return found


def history() -> str:
    """Return what each release of torch changed."""
    numbers = [name.removeprefix("torch-") for name in releases()]
    held = []
    for before, number in pairwise(numbers):
        mine = [change for change in released() if change.number == number]
        reasons: dict[str, list[str]] = {}
        for name, reason in dict.fromkeys((change.name, change.reason) for change in mine if change.reason):
            reasons.setdefault(reason, []).append(name)
        held.append({"number": number, "before": before, "changes": mine, "reasons": reasons})
    return render("releases.md.j2", first=numbers[0], newest=NEWEST, releases=held[::-1])


def command_line() -> str:
    """Return the help of every command."""

    def shown(*words: str) -> str:
        with redirect_stdout(StringIO()) as stdout, mock.patch.dict(os.environ, COLUMNS="96"):
            commands.main(["help", *words])
        return stdout.getvalue().strip()

    return render("cli.md.j2", overview=shown(), helps={name: shown(name) for name in commands.COMMANDS})


def source(op: str) -> str:
    """Return the lines of policy.yaml about an op, with the titles of documents, which need quotes."""
    ops = page("policy.yaml").split("\nops:\n")[1]
    (text,) = re.findall(rf"(?m)^  {re.escape(op)}:.*\n(?:   .*\n)*", ops)

    def quoted(note: re.Match[str]) -> str:
        title = POLICY.cited(note[0])
        return note[0] if title == note[0] else "'" + title.replace("'", "''") + "'"

    return POLICY.cited(re.sub(r"(?<=note: )[^'\"}\n]+", quoted, dedent(text).rstrip()))


def signature(name: str) -> str:
    """Return the schema of an overload in the torch that runs; empty if that has none."""
    op, overload = split_name(name)
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{op}")
    return next((str(one).removeprefix("aten::") for one in schemas if one.overload_name == (overload or "")), "")


def category(name: str) -> str:
    """Return a category of a release as Markdown."""
    return "no such overload" if name == ABSENT else f"`{name}`"


def documented(devices: tuple[str, ...]) -> str:
    """Return the devices of a document's list. It names no device that is like another of them."""
    follows = {device.name: device.like for device in POLICY.devices if device.like in devices}
    told = ", ".join(device for device in devices if device not in follows)
    also = ", ".join(f"{device} follows {follows[device]}" for device in devices if device in follows)
    return f"{told} ({also})" if also else told


def render(template: str, **values: object) -> str:
    """Return a template's text, filled in."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    texts = environment()
    texts.loader = FileSystemLoader(Path(__file__).with_name("templates"))
    texts.filters.update(
        signature=signature, category=category, few=sentences.few, documented=documented, spelled=sentences.spelled
    )
    return texts
