"""The options and hooks of pytest, and the fixtures that several test modules share."""

import os
import signal
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import polycast
import pytest
import torch
from polycast.devices import device_of

from tests.support import recorded_errors
from tests.support.cases import CASES
from tests.support.devices import real_devices
from tests.support.optimizers import PATHS, Kernels, kernels_on
from tests.support.recorded_errors import RecordedError
from tests.support.sharded import world

if find_spec("numpy") is None:
    os.environ["PYTHONWARNINGS"] = "ignore:Failed to initialize NumPy"  # Child processes would print the warning.
os.environ.pop("COLUMNS", None)  # `COLUMNS` would change the width of printed text.
# Some tests send `SIGINT`, which Python ignores if a shell started it in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
_chosen: list[str] = []
_OF_DEVICES = {"real_device", "kernels", "operators"}


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run only the tests that use real_device, kernels or operators, on these device types, such as cpu,cuda"
    parser.addoption("--real-devices", metavar="TYPES", help=text)
    parser.addoption("--rewrite-errors", action="store_true", help="write errors.txt in the folders of the tests")
    parser.addoption("--rewrite-works-with", action="store_true", help="write the tables of docs/works_with.md")


def pytest_configure(config: pytest.Config) -> None:
    for option in ("rewrite_errors", "rewrite_works_with"):
        if config.getoption(option) and config.getoption("numprocesses", None):
            name = option.replace("_", "-")
            raise pytest.UsageError(f"--{name}: expected one process, got --numprocesses; omit it")
    if config.getoption("rewrite_errors") and any("::" in given for given in config.args):
        raise pytest.UsageError("--rewrite-errors: expected folders or files, got a test; select tests with -k")
    here, option = real_devices(), config.getoption("real_devices")
    _chosen[:] = option.split(",") if option else here
    if missing := [name for name in _chosen if name not in here]:
        raise pytest.UsageError(
            f"--real-devices: expected types among {', '.join(here)}, got {', '.join(missing)}; omit these"
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses ``real_device``, ``kernels`` or ``operators`` once for each chosen device type.

    On the CPU, ``kernels`` and ``operators`` have several paths. ``real_case`` is one of the device's ``CASES``.
    """
    if "real_case" in metafunc.fixturenames:
        pairs = [(chosen, case) for chosen in _chosen for case in CASES if case.device == device_of(chosen)]
        names, ids = ("real_device", "real_case"), [f"{chosen}-{case.name}" for chosen, case in pairs]
        metafunc.parametrize(names, pairs, ids=ids, indirect=["real_device"], scope="module")
    elif "real_device" in metafunc.fixturenames:
        metafunc.parametrize("real_device", _chosen, indirect=True, scope="module")
    if "operators" in metafunc.fixturenames:
        metafunc.parametrize("operators", kernels_on(_chosen, ("fused", "composition")), ids=str, indirect=True)
    if "kernels" in metafunc.fixturenames:
        metafunc.parametrize("kernels", kernels_on(_chosen), ids=str, indirect=True)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Store the deselected tests, so that ``--rewrite-errors`` does not remove their errors."""
    recorded_errors.deselected.extend(items)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("real_devices"):
        others = [item for item in items if _OF_DEVICES.isdisjoint(getattr(item, "fixturenames", ()))]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


@pytest.fixture(scope="module")
def real_device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Install the policy's kernels for a device type of this machine, and return the type."""
    with polycast.install(request.param):
        yield request.param


@pytest.fixture
def kernels(request: pytest.FixtureRequest) -> Iterator[Kernels]:
    """Return the kernels that run optimizer steps: one of ``PATHS`` on the CPU, or another device's kernels."""
    with PATHS[request.param.path]():
        yield request.param


@pytest.fixture
def operators(request: pytest.FixtureRequest) -> Iterator[Kernels]:
    """Return the kernels that run polycast's operators: ``kernels`` without the path that calls ``torch.optim``."""
    with PATHS[request.param.path]():
        yield request.param


# A file of tests that imports one of these modules is skipped if the module is not installed.
OPTIONAL = {"hypothesis", "numpy", "transformers"}


class Module(pytest.Module):
    """A file of tests, which is skipped if it imports an optional module that is not installed."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Collect the tests, or skip the file if an optional module is missing."""
        try:
            return super().collect()
        except self.CollectError as error:
            cause = error.__cause__
            if isinstance(cause, ModuleNotFoundError) and cause.name in OPTIONAL:
                pytest.skip(f"{cause.name} is not installed", allow_module_level=True)
            raise


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> Module:
    """Collect each file of tests as a ``Module``."""
    module: Module = Module.from_parent(parent, path=module_path)
    return module


@pytest.fixture(scope="module")
def world_of_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Initialize ``torch.distributed`` with this process as its only member."""
    world.join(tmp_path_factory.mktemp("world"), rank=0, size=1)
    yield
    world.distributed.destroy_process_group()


@pytest.fixture
def recorded_error(request: pytest.FixtureRequest) -> RecordedError:
    """Return a function for ``with`` blocks that must raise the error in the folder's ``errors.txt``."""
    return RecordedError(request)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the errors that the tests raised to ``errors.txt``, if ``--rewrite-errors`` is set."""
    if session.config.getoption("rewrite_errors"):
        recorded_errors.rewrite(session.items)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Run ops in one thread, because more threads slow down tiny ops."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def fill_memory() -> Iterator[None]:
    """Enable PyTorch's deterministic mode, which fills the memory of new CPU tensors."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)
