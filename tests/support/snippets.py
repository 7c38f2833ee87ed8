"""The snippets and commands of ``README.md``, ``CHANGELOG.md``, ``CONTRIBUTING.md`` and the pages of ``docs/``."""

import ast
import math
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
# These pages are not generated.
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    *sorted(
        path.relative_to(ROOT).as_posix()
        for path in [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/trainers/*.md")]
        # `changelog.md` includes `CHANGELOG.md`, and the site generates the other two.
        if path.name not in ("changelog.md", "cli.md", "releases.md")
    ),
)
# The language of a MyST directive is its name in braces, with its arguments.
_BLOCK = re.compile(r"^ *```([^`\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_DECIMAL = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+")
_COMMAND = re.compile(r"(?:make|pip|uv pip|python -m|polycast) [^`#\n]*[^`#\s]")


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in a language. "" means no language."""
    return [dedent(text) for kind, text in _BLOCK.findall(page(name)) if kind == language]


class Example(NamedTuple):
    """Code or a command on a page, and the output that the page shows."""

    source: str
    output: str


def examples(name: str) -> list[Example]:
    """Return the Python blocks of a page. A text block directly after a Python block is its output."""
    found = [(kind, dedent(text)) for kind, text in _BLOCK.findall(page(name))]
    outputs = [text if kind == "text" else "" for kind, text in [*found[1:], ("", "")]]
    return [Example(text, output) for (kind, text), output in zip(found, outputs, strict=True) if kind == "python"]


def missing(sources: Iterable[str]) -> list[str]:
    """Return the packages that Python blocks import, but that are not installed."""
    statements = [node for source in sources for node in ast.walk(ast.parse(source))]
    names = [alias.name for node in statements if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in statements if isinstance(node, ast.ImportFrom) and node.module]
    return sorted({name.partition(".")[0] for name in names if find_spec(name.partition(".")[0]) is None})


def sessions(name: str) -> list[Example]:
    """Return the commands after ``$`` on a page, each with the lines that follow."""
    parts = [part for block in blocks(name, "console") for part in re.split(r"(?m)^\$ ", block)[1:]]
    return [Example(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def difference(output: str, shown: str) -> str:
    """Return a text with the output and the page's text if they differ, otherwise "".

    ``...`` matches any text. Words and integers must be equal. Decimals must agree to 5 %. Times, and decimals with an
    exponent, must agree within a factor of two.
    """
    pattern = r"\s+".join(map(_word_pattern, shown.split()))
    match = re.fullmatch(rf"\s*{pattern}\s*", output)
    if match and all(_agree(*pair) for pair in zip(_DECIMAL.finditer(shown), match.groups(), strict=True)):
        return ""
    return f"The page shows:\n{shown}\nand this is printed:\n{output}"


def _agree(shown: re.Match[str], printed: str) -> bool:
    of_a_machine = "e" in shown[0] or re.match(r" ?(?:s|ms|us)\b", shown.string[shown.end() :])
    return math.isclose(float(shown[0]), float(printed), rel_tol=0.5 if of_a_machine else 0.05)


def _word_pattern(word: str) -> str:
    if word == "...":
        return "(?:.|\\n)*"
    decimal = rf"({_DECIMAL.pattern})"
    return decimal.join(map(re.escape, _DECIMAL.split(word)))


def commands(name: str) -> set[str]:
    """Return the commands on a page: in console blocks, in blocks without a language, and in the text's code."""
    lines = [
        line.removeprefix("$ ")
        for kind in ("", "console")
        for block in blocks(name, kind)
        for line in block.splitlines()
    ]
    return {match[0] for text in [*lines, *inline(name)] if (match := _COMMAND.match(text))}


def inline(name: str) -> list[str]:
    """Return the code in the text of a page."""
    return re.findall(r"`([^`\n]+)`", _BLOCK.sub("", page(name)))


def added_op(policy: str) -> str:
    """Return a policy with the example op of ``CONTRIBUTING.md`` in its alphabetical position."""
    (line,) = blocks("CONTRIBUTING.md", "yaml")
    head, ops = policy.split("\nops:\n")
    texts = re.split(r"(?m)^(?=  \w)", ops)
    texts.append(f"  {line.strip()}\n")
    return f"{head}\nops:\n" + "".join(sorted(texts, key=lambda op: op.partition(":")[0]))
