"""Faults: defects that this project once fixed, and mutants that a seed selects.

Each defect in ``history/*.yaml`` has a name, a file, and the consequence for a user; a comment names the commit of the
fix. Its code occurs once in the file. A mutant changes or drops a token or statement, or swaps two arguments.
"""

import ast
import itertools
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
SEED = 20261124
# This number of mutants is drawn from the files in each folder that have these suffixes.
MUTANTS = {("python/polycast", ".py"): 120, ("csrc", ".cpp .h"): 25, ("codegen", ".py .j2"): 25}
NOT_MUTATED = ("_built_for.py", "op_samples.py")  # The first file is generated, and the second has sample arguments.

FIXED = (ast.Starred, ast.Constant)  # An argument of this kind is not swapped.
Site = tuple[int, int, str]  # The start and the end of the text to replace, and the new text.


@dataclass(frozen=True)
class Fault:
    """A file with one change."""

    name: str
    file: str  # The path, relative to the root of the repository.
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
                    f"times; update the code of this fault, or remove the fault if it cannot occur"
                )
            start = text.index(code)
            changed = text[:start] + entry["fault"].rstrip("\n") + text[start + len(code) :]
            line = text.count("\n", 0, start) + 1
            faults.append(Fault(entry["name"], entry["file"], line, entry["shows"], changed))
    return faults


def mutants() -> list[Fault]:
    """Return the mutants that the seed selects, with about the same number of each kind of change in a folder."""
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


def _python_sites(text: str) -> Iterator[tuple[str, Site]]:
    """Yield the possible changes of a Python file, which patterns find in its syntax tree."""
    lines = text.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]

    def index(line: int | None, column: int | None) -> int:
        """Return the index in the text for a line and a column. ``ast`` counts columns in bytes."""
        assert line is not None
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def span(node: ast.stmt | ast.expr) -> tuple[int, int]:
        return index(node.lineno, node.col_offset), index(node.end_lineno, node.end_col_offset)

    def visit(node: ast.AST) -> Iterator[tuple[str, Site]]:
        match node:
            case ast.Compare(left, [op], [right]):
                start, end = span(left)[1], span(right)[0]
                parts = re.fullmatch(r"(\)*\s*)(.*?)(\s*\(*)", text[start:end], re.DOTALL)
                if parts is not None:
                    yield "comparison", (start, end, parts[1] + COMPARISONS[type(op)] + parts[3])
            case ast.Expr(ast.Call()) | ast.Assign([ast.Attribute() | ast.Subscript(), *_]) | ast.AugAssign():
                yield "dropped", (*span(node), "pass")
            case ast.Constant(value) if type(value) is int and value < 100:
                yield "off-by-one", (*span(node), str(value + 1))
            case ast.Call(_, [first, second, *_]) if not isinstance(first, FIXED) and not isinstance(second, FIXED):
                (start, end), (begin, stop) = span(first), span(second)
                yield "swapped", (start, stop, text[begin:stop] + text[end:begin] + text[start:end])
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    return visit(ast.parse(text))


_OPPOSITES = {"==": "!=", "!=": "==", "<=": "<", ">=": ">", "&&": "||", "||": "&&"}
# Each kind of change in C++ or a template has a pattern, and a function that returns the replacement of a match.
_LINES: dict[str, tuple[str, Callable[[re.Match[str]], str]]] = {
    "comparison": (r"(?<= )(==|!=|<=|>=|&&|\|\|)(?= )", lambda found: _OPPOSITES[found[0]]),
    "dropped": (
        r"(?m)(?<=^)(?:  )+(?!return\b|using\b|throw\b)[\w:]+(?:[.\[(]|->| [+|]?= )[^{}\n]*;$",
        lambda _: "",
    ),
    "off-by-one": (r"(?<=[ (])\d(?=[;,) ])", lambda found: str(int(found[0]) + 1)),
    "swapped": (r"(?<=\w\()(\w+), (\w+)(?=[,)])", lambda found: f"{found[2]}, {found[1]}"),
}


def _line_sites(text: str) -> Iterator[tuple[str, Site]]:
    """Yield the possible changes of C++ or a template, which patterns find within a line."""
    bare = re.sub(r"//.*|/\*.*?\*/|#.*|\"[^\"\n]*\"", lambda found: " " * len(found[0]), text)
    for kind, (pattern, change) in _LINES.items():
        for found in re.finditer(pattern, bare):
            yield kind, (*found.span(), change(found))
