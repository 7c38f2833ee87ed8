"""Renders one device to files that need torch alone, for the owners of a backend outside of torch.

The registration is C++ on the macros of torch's ATen/autocast_mode.h, the test needs torch, pytest and the backend, and
the table is Markdown.
"""

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from polycast._grammar.categories import Category
from polycast._grammar.names import join_name
from polycast._grammar.versions import ALL, VersionRange, subtract

from .model import Device, Policy, Rule
from .render import cited, environment

# The lower precision in which torch runs the regions of a backend that sets no other.
TORCH_DEFAULT = "float16"
# The template of a file, by its suffix.
TEMPLATES = {
    **dict.fromkeys((".cpp", ".cc", ".cxx"), "standalone/registration.cpp.j2"),
    ".py": "standalone/test.py.j2",
    ".md": "standalone/table.md.j2",
}


def render_standalone(
    policy: Policy, device: Device, paths: Iterable[Path], options: Iterable[str] = ()
) -> dict[Path, str]:
    """Return the text of each file, whose suffix is one of TEMPLATES.

    A file holds the command that makes it alone, with the options that chose the device. It has the names of files,
    and neither their folders nor a version, so it is the same from any folder and release that has the same rules.
    """
    policy = cited(policy)
    listed = [(op, rule) for op in policy.ops for rule in op.rules if rule.device == device.name]
    cases = [rule for _, rule in listed if rule.category is not Category.STOCK]
    texts = environment()
    texts.filters.update(cpp_comment=_cpp_comment)
    values = {
        "policy": policy,
        "device": device,
        "listed": listed,
        "cases": cases,
        "kept": [rule for _, rule in listed if rule.category is Category.STOCK],
        "blocks": list(_blocks(cases)),
        "categories": [category for category in Category if category in {rule.category for _, rule in listed}],
        "messages": {rule.op: rule.message for rule in cases if rule.category is Category.BANNED},
        "unlisted": list(_unlisted(policy, device)),
        "by_release": any(rule.torch != ALL for rule in cases),
        "TORCH_DEFAULT": TORCH_DEFAULT,
    }
    made = ["python", "-m", "codegen", *(options or ["--backend", device.name]), "--standalone"]

    def text(path: Path) -> str:
        command = shlex.join(Path(word).name for word in [*made, str(path)])
        return texts.get_template(TEMPLATES[path.suffix]).render(values, command=command)

    return {path: text(path) for path in paths}


def _cpp_comment(note: str | None, before: str = "  // ") -> str:
    """Return a note as the end of a line; a backslash there would make a comment of the next line, too."""
    text = " ".join((note or "").split()).rstrip("\\ ")
    return text and before + text


def _blocks(rules: list[Rule]) -> Iterator[tuple[Category, VersionRange, list[Rule]]]:
    """Yield the rules of each category and range of releases, those of all releases first."""
    for category in Category:
        mine = [rule for rule in rules if rule.category is category]
        for torch in sorted({rule.torch for rule in mine} | ({ALL} if mine else set()), key=str):
            yield category, torch, [rule for rule in mine if rule.torch == torch]


def _unlisted(policy: Policy, device: Device) -> Iterator[tuple[str, VersionRange]]:
    """Yield the overloads of the policy that are unlisted on a device, and the releases in which they are."""
    for op in policy.ops:
        for overload in dict.fromkeys(rule.overload for rule in op.rules):
            held = [rule.torch for rule in op.rules if rule.overload == overload and rule.device == device.name]
            for torch in subtract(overload.torch, held):
                yield join_name(op.name, overload.name), torch
