"""The examples in the package's docstrings run and print what they say."""

import doctest
import pkgutil
from collections.abc import Iterator
from importlib import import_module

import polycast
import pytest

MODULES = ["polycast", *(module.name for module in pkgutil.walk_packages(polycast.__path__, "polycast."))]


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
    results = doctest.testmod(import_module(name))
    assert results.failed == 0, "the report is on stdout"


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    assert sum(len(test.examples) for name in MODULES for test in finder.find(import_module(name))) > 10
