"""What probes found as files of history/: the first release whole, each later one as changes."""

from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import Any

from polycast._grammar.categories import UNLISTED
from polycast._grammar.releases import ABSENT

Found = Mapping[str, Any]
Changes = dict[str, dict[str, str] | str]
_WIDTH = 120


def text_of(found: Found, before: tuple[str, Found] | None, reasons: Mapping[str, str]) -> str:
    """Return the file of a release.

    Args:
        found: What the probe printed for it.
        before: The name of the release before it, and what the probe printed for that; None for the first.
        reasons: Why ops changed, kept from an earlier file.
    """
    version = found["packages"]["torch"]
    devices = sorted(found["devices"])
    lines = [
        f"# Recorded by `python -m tools.history record {version.split('+')[0]}`; only the reasons are written by hand."
    ]
    lines.append(f"recorded: {_flow(found['packages'])}")
    changed: Changes = {
        name: _categories(found, name)
        for name in sorted({name for rules in found["devices"].values() for name in rules})
    }
    if before is not None:
        name, old = before
        lines.append(f"after: {name}")
        was = {"devices": {device: rules for device, rules in old["devices"].items() if device in devices}}
        changed = _changes(found, was)
        new = [op for op in changed if op not in old["overloads"]]
    lines.append(f"devices: [{', '.join(devices)}]")
    if before is not None and new:
        lines.append(f"new: [{', '.join(new)}]")
    if changed:
        lines += [
            "ops:",
            *(
                f"  {op}: {categories if isinstance(categories, str) else _flow(categories)}"
                for op, categories in changed.items()
            ),
        ]
    if reasons:
        lines.append("reasons:")
        for op, reason in reasons.items():
            lines += [f"  {op}: >-", _filled(reason)]
    return "\n".join(lines) + "\n"


def _categories(found: Found, name: str) -> dict[str, str]:
    return {device: rules[name] for device, rules in sorted(found["devices"].items()) if name in rules}


def _changes(found: Found, was: Found) -> Changes:
    changed: Changes = {}
    names: Iterable[str] = {name for part in (found, was) for rules in part["devices"].values() for name in rules}
    for name in sorted(names):
        categories = _categories(found, name)
        if categories != _categories(was, name):
            changed[name] = categories or (UNLISTED if name in found["overloads"] else ABSENT)
    return changed


def _filled(text: str) -> str:
    """Return a text in lines that YAML joins by spaces: they break at spaces only."""
    indent = "    "
    return fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _flow(categories: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{key}: {value}' for key, value in categories.items())}}}"
