"""Fixtures for a world of two processes: this process, and another process that makes the same calls."""

import gc
from collections.abc import Iterator

import pytest

from tests.support.sharded import world


@pytest.fixture(scope="package")
def other() -> Iterator[world.Other]:
    process = world.Other()
    yield process
    process.process.communicate()


@pytest.fixture(scope="module")
def world_of_two(other: world.Other, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder, leave = tmp_path_factory.mktemp("world"), world.distributed.destroy_process_group
    other.begin(world.join, folder=folder, rank=1, size=2)
    world.join(folder, rank=0, size=2)
    assert other.error() == ""
    yield
    other.begin(leave)
    leave()
    assert other.error() == ""


@pytest.fixture
def on_both_ranks(request: pytest.FixtureRequest, other: world.Other) -> Iterator[None]:
    """Run the test in both processes at the same time."""
    for name in ("world_of_two", "one_thread"):
        request.getfixturevalue(name)
    callspec = getattr(request.node, "callspec", None)
    other.begin(request.function, **(callspec.params if callspec else {}))
    yield
    assert other.error() == ""


@pytest.fixture
def freed() -> Iterator[None]:
    """Free models of FSDP1 after the test. PyTorch warns at that time, and the warning would fail a later test."""
    yield
    gc.collect()
