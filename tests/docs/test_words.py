"""One word for one thing: the words that CONTRIBUTING.md retires are found nowhere in the project."""

import re
from functools import cache
from pathlib import Path

import pytest

from testing.snippets import ROOT

FOLDERS = ("benchmarks", "codegen", "csrc", "examples", "generated", "python/polycast", "testing", "tests", "tools")
FILES = ("CONTRIBUTING.md", "Makefile", "README.md", "policy.yaml", "pyproject.toml", "setup.py")
SUFFIXES = {".cpp", ".h", ".j2", ".jsonl", ".md", ".py", ".pyi", ".txt", ".yaml"}

# A word for each: the pattern that finds it.
RETIRED = {
    "base: the built-in policy": r"\bbase_(rule|message)\b|Layer::base",
    "column: a device": r"\b(column_of|set_column|type_of_column)\b|\bColumn\b",
    "host read: sync": r"[Hh]ost reads?\b|\bread back\b|reads from the device",
    "kind: a device type": r"\bkind_of\b|kind of device",
    "empty cell, not there: unlisted": r"[Ee]mpty cell|not there, (fp32|low)",
    "half precision: lower precision": r"\b(half|low|reduced)[ -]precision\b|16[- ]bit precision",
    "registration: a rule": r"\bRegistration\b|\bregistrations\(\)|\.registrations\b|check_registration",
    "row: a rule": r"\badd_rows\b|\brows_\d\.cpp|\bcpp_row\b|_rows_of_siblings|\brows_by_name\b",
    "spoken: also called": r"\bspoken\b|\bSPOKEN",
}


@cache
def lines() -> list[tuple[str, int, str]]:
    """Return (file, number, text) of each line of the project, but not of the glossary and of this file."""
    paths = [ROOT / name for name in FILES]
    for folder in FOLDERS:
        paths += [path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    found = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if path.name == "CONTRIBUTING.md":
            text = text.partition("\n## Words\n")[0]
        if path != Path(__file__):
            name = path.relative_to(ROOT).as_posix()
            found += [(name, number, line) for number, line in enumerate(text.splitlines(), 1)]
    return found


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_is_nowhere(word: str) -> None:
    pattern = re.compile(RETIRED[word])
    found = [f"{name}:{number}: {text.strip()}" for name, number, text in lines() if pattern.search(text)]
    assert found == [], "\n".join(["", *found])
