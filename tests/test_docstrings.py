"""The examples in the package's docstrings run and print what they say."""

import doctest
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import polycast
import pytest

from tests.support.process import python

POINTERS = ("polycast.amp", "polycast.cuda")  # whose import raises
FOUND = [module.name for module in pkgutil.walk_packages(polycast.__path__, "polycast.")]
MODULES = ["polycast", *(name for name in FOUND if name not in POINTERS)]
OPTIONAL = [name for name in MODULES if name.startswith("polycast.integrations.") or name == "polycast.debug.picture"]


def imported(name: str) -> ModuleType:
    """Return a module, or skip where the package is absent that it integrates or draws with."""
    if name not in OPTIONAL:
        return import_module(name)
    module: ModuleType = pytest.importorskip(name, exc_type=ModuleNotFoundError)
    return module


@pytest.fixture
def restored() -> Iterator[None]:
    """What was installed before is installed after."""
    before = polycast.installed()
    yield
    polycast.uninstall()
    if before:
        polycast.install(*before)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    results = doctest.testmod(imported(name))
    assert results.failed == 0, "the report is on stdout"


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    own = [name for name in MODULES if name not in OPTIONAL]
    assert sum(len(test.examples) for name in own for test in finder.find(import_module(name))) > 10


def test_importing_the_package_imports_no_integration() -> None:
    absent = "[name for name in sys.modules if name.startswith('polycast.integrations')]"
    assert python(f"import polycast, sys; print({absent})") == "[]\n"
