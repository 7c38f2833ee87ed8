"""The grammar serves the build and run time: it imports neither's, and both tell it the same of the schemas."""

import subprocess
import sys
from dataclasses import astuple
from pathlib import Path

import polycast
import polycast._grammar
from polycast._grammar import errors
from polycast.policy import operators

import codegen.__main__ as generator
from codegen.schemas import Schemas
from tests.support.process import python

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in Path(polycast._grammar.__path__[0]).glob("*.py"))
IMPORTED = "print(sorted({'torch', 'yaml', 'polycast._compiled'} & set(sys.modules)))"


def test_torchgen_and_the_dispatcher_tell_the_same_of_every_overload() -> None:
    schemas = Schemas.installed()
    known, differing = 0, set()
    for op in schemas.ops:
        held = operators.signatures(f"aten::{op}")
        for overload in schemas.overloads(op):
            known += 1
            if astuple(schemas.signature(op, overload)) != astuple(held[overload]):
                differing.add(op)
    assert differing == set()
    assert known > 2000


def test_the_grammar_imports_neither_torch_nor_the_package_and_yaml_for_files_only() -> None:
    for modules, imported in ((set(MODULES) - {"files"}, "[]\n"), (set(MODULES), "['yaml']\n")):
        imports = "; ".join(f"import polycast._grammar.{name}" for name in modules - {"__init__"})
        code = f"import sys, codegen; codegen.find_grammar(); {imports}; {IMPORTED}"
        run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
        assert (run.stdout, run.stderr) == (imported, "")


def test_the_generator_and_the_package_share_its_classes() -> None:
    assert vars(generator)["PolicyError"] is polycast.PolicyError is errors.PolicyError


def test_the_package_imports_yaml_where_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("ops: {}\n", encoding="utf-8")
    code = f"import sys, polycast; {IMPORTED}; polycast.Policy.load({str(path)!r}); {IMPORTED}"
    assert python(code).splitlines() == ["['polycast._compiled', 'torch']", "['polycast._compiled', 'torch', 'yaml']"]
