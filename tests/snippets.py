"""The snippets and commands of README.md and CONTRIBUTING.md."""

import re
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CONTRIBUTING.md")
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:make|pip|python -m) [^`#\n]*[^`#\s]")


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in a language; "" is none."""
    return [dedent(text) for kind, text in _BLOCK.findall(page(name)) if kind == language]


def commands(name: str) -> set[str]:
    """Return what a page has its reader type: lines of blocks without a language, and code in the text."""
    lines = [line for block in blocks(name, "") for line in block.splitlines()]
    return {match[0] for text in [*lines, *inline(name)] if (match := _COMMAND.match(text))}


def inline(name: str) -> list[str]:
    """Return the code in the text of a page."""
    return re.findall(r"`([^`\n]+)`", _BLOCK.sub("", page(name)))


def added_op(policy: str) -> str:
    """Return a policy with the op that the README adds, where its name belongs."""
    (line,) = blocks("README.md", "yaml")
    head, ops = policy.split("\nops:\n")
    entries = re.split(r"(?m)^(?=  \w)", ops)
    entries.append(f"  {line.strip()}\n")
    return f"{head}\nops:\n" + "".join(sorted(entries, key=lambda entry: entry.partition(":")[0]))


def added_sample(samples: str) -> str:
    """Return tests/samples/ops.py with the arguments that the README gives its op, at the end of their table."""
    (line,) = [text for text in inline("README.md") if "lambda make" in text]
    head, table, rest = samples.partition("\nSAMPLES: ")
    return head + table + rest.replace("\n}\n", f"\n    {line}\n}}\n", 1)
