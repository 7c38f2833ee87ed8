"""The examples in the package's docstrings, which must print the documented output."""

import doctest
from importlib import import_module
from pathlib import Path
from types import ModuleType

import polycast
import pytest

from tests.support.process import python

ROOT = Path(polycast.__file__).parent
FILES = [path for path in sorted(ROOT.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
NAMES = [".".join(["polycast", *path.relative_to(ROOT).with_suffix("").parts]) for path in FILES]
MODULES = [name.removesuffix(".__init__") for name in NAMES]


def imported(name: str) -> ModuleType:
    """Return a module, or skip the test if a package that the module integrates is not installed."""
    if not name.startswith("polycast.integrations."):
        return import_module(name)
    module: ModuleType = pytest.importorskip(name, exc_type=ModuleNotFoundError)
    return module


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    module, before = imported(name), polycast.installed()
    results = doctest.testmod(module)
    polycast.uninstall()
    if before:
        polycast.install(*before)
    assert results.attempted > 0 and results.failed == 0, "the report is on stdout"


def test_importing_the_package_imports_no_integration() -> None:
    absent = "[name for name in sys.modules if name.startswith('polycast.integrations')]"
    assert python(f"import polycast, sys; print({absent})") == "[]\n"
