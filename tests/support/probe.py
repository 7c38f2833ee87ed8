"""Sees what arrives below autocast, on any device, without the device.

Fake tensors of a device carry its autocast key, so a call goes through the real C++ kernels. A Python kernel on the key
right below, the autograd key of the device, catches it there: the op itself never runs, so the arguments need no sense.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import polycast
import torch
from polycast import _compiled, installation
from polycast.backends import device_type_of
from polycast.debug.verification.outcomes import flatten as flatten
from polycast.scope import scopes
from torch._subclasses.fake_tensor import FakeTensorMode

HAS_XLA = os.environ.get("USE_TORCH_XLA") != "0"
try:
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    # A computation takes about 30 memory maps, of which Linux gives a process 65,530, and torch_xla keeps 2,048
    # computations, unless this says otherwise.
    os.environ.setdefault("XLA_COMPILATION_CACHE_SIZE", "256")
    if HAS_XLA:
        import torch_xla  # noqa: F401
except ImportError:
    HAS_XLA = False

if HAS_XLA:
    # Autograd counts the devices at the first backward of a process, and XLA has none before its first tensor.
    torch.empty(0, device="xla")
NO_XLA = "torch_xla is not installed beside this torch, or USE_TORCH_XLA=0 leaves it out"


class ReachedError(Exception):
    """Raised by the probe: a call arrived below autocast."""

    def __init__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(name)
        self.name = name
        self.arguments = (*args, *kwargs.values())
        self._excluded = torch._C._dispatch_tls_local_exclude_set()

    @property
    def tensors(self) -> list[torch.dtype]:
        return [tensor.dtype for tensor in flatten(self.arguments)]

    def autocasts(self, key: str) -> bool:
        """Whether what the op runs below would autocast, on a device's autocast key."""
        return not self._excluded.has(key)

    @property
    def dtypes(self) -> list[torch.dtype]:
        return [value for value in self.arguments if isinstance(value, torch.dtype)]


def is_here(device: str) -> bool:
    """Whether real tensors of the device can be made."""
    return device_type_of(device) == "cpu" or (device_type_of(device) == "xla" and HAS_XLA)


@cache
def is_reachable(device: str) -> bool:
    """Whether tensors of the device, real or fake, carry its autocast key."""
    with tensors_of(device):
        tensor = torch.empty(1, device=device_type_of(device))
        return torch._C._dispatch_keys(tensor).has(_compiled.DEVICES[device].dispatch_key)


@contextmanager
def kernels_of(device: str) -> Iterator[None]:
    """Have the kernels of one device installed, whatever hardware it is for, and only those on its key."""
    before = polycast.installed()
    polycast.uninstall()
    with installation.changing():
        _compiled.install_kernels(device, True)
    try:
        yield
    finally:
        with installation.changing():
            _compiled.uninstall_kernels(device)
            for other in before:
                _compiled.install_kernels(other, False)


@contextmanager
def stock_kernels() -> Iterator[None]:
    """Uninstall the policy's kernels on every device, and install those that were there again at the end."""
    before = polycast.installed()
    polycast.uninstall()
    try:
        yield
    finally:
        polycast.uninstall()
        if before:
            polycast.install(*before)


@contextmanager
def tensors_of(device: str, mode: FakeTensorMode | None = None) -> Iterator[None]:
    """Allow tensors of the device: real ones where the device is here, else fake ones."""
    if is_here(device):
        yield
        return
    device_type = device_type_of(device)
    stand_in = not hasattr(torch, device_type)
    if stand_in:  # fake tensors ask the module of their device, which a backend outside of torch registers
        module = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, current_device=int)
        setattr(torch, device_type, module)
    try:
        with mode or FakeTensorMode(allow_non_fake_inputs=True):
            yield
    finally:
        if stand_in:
            delattr(torch, device_type)


@contextmanager
def region(device: str, dtype: torch.dtype) -> Iterator[None]:
    """Autocast on the device without torch's question whether the device is there; forward only."""
    with region_with_gradients(device, dtype), torch.no_grad():
        yield


@contextmanager
def region_with_gradients(device: str, dtype: torch.dtype) -> Iterator[None]:
    """Autocast on a device of the policy without torch's question whether the device is there."""
    device_type = device_type_of(device)
    enabled, previous = torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type)
    torch.set_autocast_enabled(device_type, True)
    torch.set_autocast_dtype(device_type, dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device_type, enabled)
        torch.set_autocast_dtype(device_type, previous)
        torch.clear_autocast_cache()


@contextmanager
def in_force(policy: polycast.Policy) -> Iterator[None]:
    """Have a policy hold as in a region, on devices that no region can be opened on, too."""
    with scopes.over(policy):
        yield


@contextmanager
def probes(device: str, names: Iterable[str]) -> Iterator[None]:
    """Put a probe below autocast on each op named, as in "conv1d.padding"."""
    key = _compiled.DEVICES[device].dispatch_key.replace("Autocast", "Autograd")
    with _overriding() as library:
        for name in sorted(set(names)):
            library.impl(name, _probe(name), _parsable(key, name))  # type: ignore[no-untyped-call]
        yield


@contextmanager
def _overriding() -> Iterator[torch.library.Library]:
    """Yield a library of kernels that take the place of torch's, which warns of it once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Overriding a previously registered kernel", category=UserWarning)
        library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
        try:
            yield library
        finally:
            library._destroy()  # type: ignore[no-untyped-call]


@contextmanager
def recorded(device: str, names: Iterable[str]) -> Iterator[set[str]]:
    """Collect which of the overloads named a call comes to where autocasting would handle them, and let it go on."""
    found: set[str] = set()
    key = _compiled.DEVICES[device].dispatch_key
    autocast = torch._C.DispatchKeySet(torch._C._dispatch_key_parse(key))

    def record(name: str) -> Callable[..., object]:
        op, _, overload = name.partition(".")
        call = getattr(getattr(torch.ops.aten, op), overload or "default")

        def kernel(*args: Any, **kwargs: Any) -> object:
            found.add(name)
            with torch._C._ExcludeDispatchKeyGuard(autocast):
                return call(*args, **kwargs)

        return kernel

    with _overriding() as library:
        for name in names:
            library.impl(name, record(name), key)  # type: ignore[no-untyped-call]
        yield found


@contextmanager
def transparent(device: str, name: str) -> Iterator[None]:
    """Have autocasting pass an overload on a device by: the ops that it runs autocast by themselves."""
    with _overriding() as library:
        library.impl(name, torch.library.fallthrough_kernel, _compiled.DEVICES[device].dispatch_key)  # type: ignore[no-untyped-call]
        yield


def reach(call: Callable[[], object]) -> ReachedError:
    """Return what the probe saw of a call."""
    try:
        call()
    except ReachedError as reached:
        return reached
    raise AssertionError("the call did not arrive at a probe")


def _parsable(key: str, name: str) -> str:
    """Return an autograd key, or where it has no name in Python the alias that decides what runs there."""
    try:
        torch._C._dispatch_key_parse(key)
    except RuntimeError:
        composite = "CompositeImplicitAutograd"
        return composite if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", composite) else "Autograd"
    return key


def _probe(name: str) -> Callable[..., None]:
    def probe(*args: Any, **kwargs: Any) -> None:
        raise ReachedError(name, args, kwargs)

    return probe
