"""Faults: defects that this project once fixed, and mutants that a seed selects.

Each defect in ``history/*.yaml`` has a name, the commit of the fix, a file, the consequence for a user, and a text that
occurs once in the file, with its faulty form. A mutant changes or drops a token or statement, or swaps two arguments.
"""

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
SEED = 20261124
# The number of mutants to draw from each folder, from the files with the given suffixes.
MUTANTS = {("python/polycast", ".py"): 120, ("csrc", ".cpp .h"): 25, ("codegen", ".py .j2"): 25}
NOT_MUTATED = ("_built_for.py", "op_samples.py")  # The first file is generated, and the second has sample arguments.

Site = tuple[int, int, str]  # The start and the end of a text, and the replacement.


@dataclass(frozen=True)
class Fault:
    """A file with one change."""

    name: str
    file: str  # The path from the root.
    line: int
    shows: str
    text: str  # The whole file, with the change.


def history() -> list[Fault]:
    """Return the defects that this project fixed.

    Raises:
        ValueError: If the code of a defect is not in its file exactly once.
    """
    faults = []
    for path in sorted(Path(__file__).with_name("history").glob("*.yaml")):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
            file, code = ROOT / entry["file"], entry["code"].rstrip("\n")
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            if text.count(code) != 1:
                raise ValueError(
                    f"{path.name}: {entry['name']}: expected its code once in {entry['file']}, got {text.count(code)} "
                    f"times; follow the code to where it is now, or remove the entry if the fault is no longer possible"
                )
            start = text.index(code)
            changed = text[:start] + entry["fault"].rstrip("\n") + text[start + len(code) :]
            line = text.count("\n", 0, start) + 1
            faults.append(Fault(entry["name"], entry["file"], line, entry["shows"], changed))
    return faults


def mutants() -> list[Fault]:
    """Return the mutants for the seed. Each folder has about equal numbers of the kinds of change, if possible."""
    faults = []
    for (folder, suffixes), number in MUTANTS.items():
        kinds: dict[str, list[Fault]] = {}
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes.split() and path.name not in NOT_MUTATED:
                for kind, fault in _mutants_of(path):
                    kinds.setdefault(kind, []).append(fault)
        chooser = random.Random(SEED)
        drawn = [chooser.sample(kinds[kind], min(number, len(kinds[kind]))) for kind in sorted(kinds)]
        alternating = [kind[index] for index in range(number) for kind in drawn if index < len(kind)]
        faults += alternating[:number]
    return faults


def _mutants_of(path: Path) -> Iterator[tuple[str, Fault]]:
    text, file = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    found = _python_sites(text) if path.suffix == ".py" else _line_sites(text)
    for kind, (start, end, new) in found:
        line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
        shows = f"{' '.join(text[start:end].split())} -> {new or 'nothing'}"
        yield kind, Fault(f"{file}:{line}:{column}:{kind}", file, line, shows, text[:start] + new + text[end:])


COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


class _Sites(ast.NodeVisitor):
    """A visitor that finds the possible changes of a Python file, with their kinds."""

    def __init__(self, text: str) -> None:
        self.found: list[tuple[str, Site]] = []
        self._text = text
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = text.splitlines()

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._index(node.lineno, node.col_offset), self._index(node.end_lineno, node.end_col_offset)

    def _index(self, line: int, column: int) -> int:
        """Return the index in the text for a line and a column. ``ast`` counts columns in bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            start, end = self._span(node.left)[1], self._span(node.comparators[0])[0]
            parts = re.fullmatch(r"(\)*\s*)(.*?)(\s*\(*)", self._text[start:end], re.DOTALL)
            if parts is not None:
                self.found.append(("comparison", (start, end, parts[1] + COMPARISONS[type(node.ops[0])] + parts[3])))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.found.append(("dropped", (*self._span(node), "pass")))
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], (ast.Attribute, ast.Subscript)):
            self.found.append(("dropped", (*self._span(node), "pass")))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.found.append(("dropped", (*self._span(node), "pass")))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int and node.value < 100:
            self.found.append(("off-by-one", (*self._span(node), str(node.value + 1))))

    def visit_Call(self, node: ast.Call) -> None:
        pair = node.args[:2]
        if len(pair) == 2 and not any(isinstance(each, (ast.Starred, ast.Constant)) for each in pair):
            (start, end), (begin, stop) = map(self._span, pair)
            swapped = self._text[begin:stop] + self._text[end:begin] + self._text[start:end]
            self.found.append(("swapped", (start, stop, swapped)))
        self.generic_visit(node)


def _python_sites(text: str) -> list[tuple[str, Site]]:
    sites = _Sites(text)
    sites.visit(ast.parse(text))
    return sites.found


_LINES = (
    ("comparison", re.compile(r"(?<= )(==|!=|<=|>=|&&|\|\|)(?= )")),
    ("dropped", re.compile(r"(?m)(?<=^)(?:  )+(?!return\b|using\b|throw\b)[\w:]+(?:[.\[(]|->| [+|]?= )[^{}\n]*;$")),
    ("off-by-one", re.compile(r"(?<=[ (])\d(?=[;,) ])")),
    ("swapped", re.compile(r"(?<=\w\()(\w+), (\w+)(?=[,)])")),
)  # fmt: skip
_OPPOSITES = {"==": "!=", "!=": "==", "<=": "<", ">=": ">", "&&": "||", "||": "&&"}


def _line_sites(text: str) -> Iterator[tuple[str, Site]]:
    """Yield the possible changes of C++ or a template, by patterns within a line."""
    bare = re.sub(r"//.*|/\*.*?\*/|#.*|\"[^\"\n]*\"", lambda found: " " * len(found[0]), text)
    for kind, pattern in _LINES:
        for found in pattern.finditer(bare):
            old = text[found.start() : found.end()]
            if kind == "comparison":
                new = _OPPOSITES[old]
            elif kind == "dropped":
                new = ""
            elif kind == "off-by-one":
                new = str(int(old) + 1)
            else:
                new = f"{found[2]}, {found[1]}"
            yield kind, (found.start(), found.end(), new)
