"""The imports between the parts of the repository, which must be allowed and without cycles."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Graph = dict[str, set[str]]
# Each part of the repository may import these parts.
MAY_IMPORT = {
    "python": {"polycast"},
    "codegen": set(),  # `codegen` runs before the package exists.
    "examples": {"polycast"},
    "tests": {"polycast", "codegen", "docs"},
    "docs": {"polycast", "codegen"},
    "benchmarks": {"polycast", "codegen", "tests"},
}
PARTS = {*MAY_IMPORT, "polycast"}
CSRC = ROOT / "csrc"


def modules(part: str) -> dict[str, Path]:
    """Return the files of a part, by the names of the modules."""
    top = ROOT / part
    paths = [path for path in top.rglob("*.py") if "__pycache__" not in path.parts]
    base = top if part == "python" else ROOT
    names = {path: ".".join(path.relative_to(base).with_suffix("").parts) for path in paths}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


@cache
def imported(name: str, path: Path, *, only_at_import: bool) -> set[str]:
    """Return the names that a module imports. ``only_at_import`` omits imports in functions and for type checkers."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]

    def visit(node: ast.AST) -> Iterator[str]:
        if only_at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if only_at_import and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    return {*visit(ast.parse(path.read_text(encoding="utf-8")))}


def circle(graph: Graph) -> list[str]:
    """Return the nodes of a cycle, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_part_imports_only_allowed_parts(part: str) -> None:
    for name, path in modules(part).items():
        tops = {origin.partition(".")[0] for origin in imported(name, path, only_at_import=False)}
        assert tops & PARTS - {part} <= MAY_IMPORT[part], path


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_the_modules_of_a_part_have_no_import_cycle(part: str) -> None:
    found = modules(part)
    graph: Graph = {}
    for name, path in found.items():
        packages = {name.rsplit(".", level)[0] for level in range(1, name.count(".") + 1)}
        origins = imported(name, path, only_at_import=True) & found.keys()
        graph[name] = origins - packages - {name}
    assert circle(graph) == []


def includes(folder: Path) -> Iterator[str]:
    """Yield the folders of ``csrc/`` from which the files in a folder include files."""
    for path in [*folder.rglob("*.h"), *folder.rglob("*.cpp")]:
        for name in re.findall(r'#include "([^"]+)"', path.read_text(encoding="utf-8")):
            target = CSRC / name if (CSRC / name).exists() else path.parent / name
            yield target.resolve().relative_to(CSRC).parts[0]


def test_the_folders_of_csrc_have_no_include_cycle() -> None:
    rooms = sorted(path for path in CSRC.iterdir() if path.is_dir())
    assert circle({room.name: {*includes(room)} - {room.name} for room in rooms}) == []
