"""Fixtures that several test modules share."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from polycast.backends import device_type_of

from testing.probe import HAS_XLA, NO_XLA, kernels_of
from testing.sharded import world
from testing.tally import LINES

os.environ.pop("COLUMNS", None)  # which the processes of a test run in parallel are given
_told: list[str] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect what the tallies of a process say."""
    _told.extend(getattr(node, "workeroutput", {}).get(LINES, ()))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what the tallies of other processes say."""
    for line in _told:
        terminalreporter.write_line(line)


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """A device of the policy, its kernels installed; without torch_xla there is nothing to run XLA's on."""
    name: str = request.param
    if device_type_of(name) == "xla" and not HAS_XLA:
        pytest.skip(NO_XLA)
    with kernels_of(name):
        yield name


@pytest.fixture(scope="module")
def world_of_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A world of torch.distributed that this process is all of."""
    world.mesh.cache_clear()
    world.join(tmp_path_factory.mktemp("world"), rank=0, size=1)
    yield
    world.distributed.destroy_process_group()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Run each op in one thread: those of tiny ops wait for each other longer than they work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def fill_memory() -> Iterator[None]:
    """Have torch fill the memory of new tensors on the host."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)
