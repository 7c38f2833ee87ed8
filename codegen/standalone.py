"""A C++ file that registers the rules of one device, for maintainers of a backend outside of PyTorch.

The file uses the macros of `ATen/autocast_mode.h`, and needs PyTorch only.
"""

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from .categories import Category
from .model import Device, Policy, Rule
from .render import cited, environment
from .versions import ALL, VersionRange


def render_standalone(policy: Policy, device: Device, path: Path, options: Iterable[str] = ()) -> str:
    """Return the text of the file.

    The text contains the command that writes it, with file names but no folders. It does not name the installed
    PyTorch. So equal rules produce equal texts in every folder and for every release.

    Args:
        policy: The policy that has the device.
        device: The device whose rules are rendered.
        path: The path that the text is written to.
        options: The options of the command that select the policy and the device; by default only the device.
    """
    rules = [rule for op in cited(policy).ops for rule in op.rules if rule.device == device.name]
    cases = [rule for rule in rules if rule.category is not Category.STOCK]
    words = ["python", "-m", "codegen", *(options or ["--backend", device.name]), "--standalone", str(path)]
    texts = environment()
    texts.filters.update(cpp_comment=_cpp_comment)
    return texts.get_template("standalone.cpp.j2").render(
        device=device,
        device_type=f"c10::DeviceType::{device.dispatch_key.removeprefix('Autocast')}",
        command=shlex.join(Path(word).name for word in words),
        kept=[rule for rule in rules if rule.category is Category.STOCK],
        blocks=list(_blocks(cases)),
        categories={rule.category for rule in rules},
        messages={rule.op: rule.message for rule in cases if rule.category is Category.BANNED},
        by_release=any(rule.torch != ALL for rule in cases),
    )


def _cpp_comment(note: str | None, before: str = "  // ") -> str:
    """Return a note as a comment at the end of a line, without a final backslash, which would continue the comment."""
    text = " ".join((note or "").split()).rstrip("\\ ")
    return text and before + text


def _blocks(rules: list[Rule]) -> Iterator[tuple[Category, VersionRange, list[Rule]]]:
    """Yield the rules of each category and range of releases. In each category, rules for all releases come first."""
    for category in Category:
        mine = [rule for rule in rules if rule.category is category]
        for torch in sorted({rule.torch for rule in mine} | ({ALL} if mine else set()), key=str):
            yield category, torch, [rule for rule in mine if rule.torch == torch]
