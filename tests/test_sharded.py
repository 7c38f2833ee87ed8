"""Sharded parameters (DTensors): all checks of tests/sharded, in a world of one and in one of two."""

import pytest

from tests.sharded import world
from tests.sharded.all import CHECKS


@pytest.mark.usefixtures("world_of_one", "one_thread")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKS)
def test_in_a_world_of_one(name: str) -> None:
    CHECKS[name]()


@pytest.mark.parametrize("name", CHECKS)
def test_in_a_world_of_two(name: str) -> None:
    assert [results[name] for results in world.results_of_two()] == ["", ""]
