"""One word for one thing: the words that CONTRIBUTING.md retires are found nowhere in the project."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.snippets import ROOT

FOLDERS = (
    "benchmarks",
    "codegen",
    "csrc",
    "docs",
    "examples",
    "generated",
    "python/polycast",
    "requirements",
    "tests",
    "tools",
)
FILES = ("CONTRIBUTING.md", "Makefile", "README.md", "policy.yaml", "pyproject.toml", "setup.py")
SUFFIXES = {".cpp", ".css", ".h", ".js", ".j2", ".jsonl", ".md", ".py", ".pyi", ".txt", ".yaml"}

# Patterns of the retired words, by the word in their place. None finds another meaning: a column of a table or a place,
# a row of a matrix, a base class, an entry of a cache.
RETIRED = {
    "the built-in policy": [
        r"\bbase_(rule|message|policy)\b|Layer::base|\b[Bb]ase policy|\bdiff base\b|\"diff\", \"base\"",
        r"(policy|rules) that (is|are) compiled in|\bcompiled policy\b",
    ],
    "a policy": [r"\b(a|the|policy) patch\b|\bpatches?\.py\b|\bpins?\b|\bpinned\b"],
    "a rule": [
        r"\bop_rows\b|_compiled(\.| import .*)ROWS\b|\bRow\(NamedTuple",
        r"\badd_rows\b|\bcpp_row\b|\brows_(by|\d|of)|\brow in BUILT_IN\b",
        r"\b[Rr]ows? of (the|a|an) (policy|op|device|release)\b|'s row of|\b(stock|built-in|banned|documented) rows?\b",
        r"\b[Ee]ntr(y|ies) of (the|a|an) (policy|op|rule|file)\b|\bentries_of\b|\bits entry in\b",
        r"\bRegistration\b|\bregistrations\(\)|\.registrations\b",
    ],
    "a category": [r"the cast of '|\brule\.value\b|\b[Ii]ts value is a category"],
    "unlisted": [r"[Ee]mpty cell|\bnot there, fp32|\b(op|it) (is|was) not listed\b|\bnot listed, runs\b|\"-: "],
    "a device": [
        r"\b[Cc]olumns? (of|in) (the|a) policy\b|\bcolumns of (devices|backends)\b|\bhas a column\b|\bthe column `",
        r"\bfor column in (DEVICES|sorted|devices)|\b_?column(_of)?\(|\bset_column\b|\bcolumn: str\b",
        r"\b(row|rule|xla|sides?)\.columns?\b|\b(Column|COLUMN)\b|\bxla\.COLUMNS\b|import COLUMNS\b|^COLUMNS\b",
    ],
    "a device type": [r"\bkind_of\b|\bkinds? of device|\btypes? of device|\bkind = (backends|device)"],
    "also called": [r"\bspoken\b|\bSPOKEN"],
    "a dtype": [
        r"\bin the type of (its|their|the) |\b(floating-point|wider|lower|widest|complex) types?\b",
        r"\b(in|of) another type than (the|it was)\b|\bkinds?: (Sequence\[)?torch\.dtype",
    ],
    "lower precision": [r"\b(half|low|reduced)[ -]precision\b|\b16[- ]bit precision\b"],
    "sync": [r"\b[Hh]ost reads?\b|\bread back\b|\breads from the device"],
    "not finite": [r"\bnonfinite (gradient|value|step)|\binfs? and nans?\b|\boverflowed step"],
}
SENTENCES = {
    "the built-in policy": ("rules over the policy that is compiled in", "a base class of GradScaler; git rebase"),
    "a policy": ("the pin of a release", "the patches of an image; mock.patch; pinned_memory"),
    "a rule": (
        "An entry of the policy: its rows of the op",
        "rows of a matrix; steps skipped in a row; an entry in the cache",
    ),
    "a category": ("and the cast of 'fold' is promote there", "the cast of a weight"),
    "unlisted": ("An empty cell means that the op is not listed", "ops that cpu lists in neither"),
    "a device": (
        "device: a column of the policy",
        "policy.yaml:3:9: line and column; columns of a table; Location.column",
    ),
    "a device type": ("one type of device", "a device type; weights of a kind"),
    "also called": ("spoken: [gpu, rocm]", "also_called: [gpu, rocm]"),
    "a dtype": ("runs in the type of its inputs", "in the dtype of its inputs; the type of an error; device types"),
    "lower precision": ("torch raises in half precision", "half of the ranks; a lower precision; at full precision"),
    "sync": ("without host reads", "a file is read; the host syncs"),
    "not finite": ("a nonfinite gradient", "is not finite; find_non_finite"),
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
    pattern = re.compile("|".join(RETIRED[word]))
    found = [f"{name}:{number}: {text.strip()}" for name, number, text in lines() if pattern.search(text)]
    assert found == [], "\n".join([f" say {word}", *found])


@pytest.mark.parametrize("word", RETIRED)
def test_its_pattern_finds_the_word_and_no_other_meaning(word: str) -> None:
    retired, other = SENTENCES[word]
    pattern = re.compile("|".join(RETIRED[word]))
    assert pattern.search(retired) and not pattern.search(other)
