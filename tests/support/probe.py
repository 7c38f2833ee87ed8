"""The kernels, regions and tensors of each device in ``policy.yaml``, and probes below the kernels."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import polycast
import torch
from polycast import _extension, installation
from polycast.devices import device_type_of
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.support import below
from tests.support.below import ReachedError as ReachedError
from tests.support.below import autocasting, fake_tensors, overload_of, overriding

HAS_XLA = os.environ.get("USE_TORCH_XLA") != "0"
try:
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    # By default, `torch_xla` caches 2,048 computations of about 30 memory maps each. A process would then exceed
    # Linux's limit of 65,530 maps.
    os.environ.setdefault("XLA_COMPILATION_CACHE_SIZE", "256")
    if HAS_XLA:
        import torch_xla  # noqa: F401
except ImportError:
    HAS_XLA = False

if HAS_XLA:
    # Autograd counts the devices at the first backward of a process, and XLA has no device before its first tensor.
    torch.empty(0, device="xla")
NO_XLA = "torch_xla is not installed, or USE_TORCH_XLA=0 disables it"


def is_here(device: str) -> bool:
    """Return whether tests use real tensors of the device: on the CPU, and on XLA if ``HAS_XLA`` is true."""
    return device_type_of(device) == "cpu" or (device_type_of(device) == "xla" and HAS_XLA)


@cache
def is_reachable(device: str) -> bool:
    """Return whether tensors of the device, real or fake, have the device's autocast key."""
    with tensors_of(device):
        tensor = torch.empty(1, device=device_type_of(device))
        return torch._C._dispatch_keys(tensor).has(_extension.DEVICES[device].dispatch_key)


@contextmanager
def kernels_of(device: str) -> Iterator[None]:
    """Install only the kernels of one device, on any hardware, and restore the others at the end."""
    before = polycast.installed()
    polycast.uninstall()
    with installation.changing():
        _extension.install_kernels(device, True)
    try:
        yield
    finally:
        with installation.changing():
            _extension.uninstall_kernels(device)
            for other in before:
                _extension.install_kernels(other, False)


@contextmanager
def stock_kernels() -> Iterator[None]:
    """Uninstall the policy's kernels on every device, and reinstall them at the end."""
    with polycast.uninstall():
        yield


def tensors_of(device: str, mode: FakeTensorMode | None = None) -> AbstractContextManager[None]:
    """Allow tensors of the device: real tensors if ``is_here`` is true, otherwise fake tensors."""
    return nullcontext() if is_here(device) else fake_tensors(device_type_of(device), mode)


@contextmanager
def region(device: str, dtype: torch.dtype) -> Iterator[None]:
    """Enter a region without gradients on a device, without PyTorch's check that the device is present."""
    with autocasting(device_type_of(device), dtype), torch.no_grad():
        yield


def probes(device: str, names: Iterable[str]) -> AbstractContextManager[None]:
    """Register a probe below autocast for each overload, such as "conv1d.padding"."""
    return below.probes(_extension.DEVICES[device].dispatch_key, names)


@contextmanager
def recorded(device: str, names: Iterable[str]) -> Iterator[set[str]]:
    """Record the overloads that calls reach at the device's autocast key, and run the calls with autocast off."""
    found: set[str] = set()
    key = _extension.DEVICES[device].dispatch_key
    autocast = torch._C.DispatchKeySet(torch._C._dispatch_key_parse(key))

    def record(name: str) -> Callable[..., object]:
        call = overload_of(name)

        def kernel(*args: Any, **kwargs: Any) -> object:
            found.add(name)
            with torch._C._ExcludeDispatchKeyGuard(autocast):
                return call(*args, **kwargs)

        return kernel

    with overriding() as library:
        for name in names:
            library.impl(name, record(name), key)  # type: ignore[no-untyped-call]
        yield found


@contextmanager
def transparent(device: str, name: str) -> Iterator[None]:
    """Make an overload fall through autocast on a device, so that only the ops that it runs are cast."""
    with overriding() as library:
        library.impl(name, torch.library.fallthrough_kernel, _extension.DEVICES[device].dispatch_key)  # type: ignore[no-untyped-call]
        yield


def reach(call: Callable[[], object]) -> ReachedError:
    """Run a call, and return the exception of the probe that it reaches."""
    try:
        call()
    except ReachedError as reached:
        return reached
    raise AssertionError("the call did not arrive at a probe")
