"""The devices that run real tensors on this machine, and helpers for tests on them."""

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import polycast
import pytest
import torch
from polycast import _extension, devices
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.support.probe import HAS_XLA, NO_XLA

NEEDS_XLA = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)
# On a device with a CPU fallback, PyTorch's kernel of `mse_loss` resizes its result.
RESIZES = pytest.mark.filterwarnings("ignore:An output with one or more elements was resized:UserWarning")


def real_devices() -> list[str]:
    """Return the device types that run real tensors in this process, the CPU first."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    private = torch._C._get_privateuse1_backend_name()
    found = [devices.HOST]
    found += [devices.XLA_TYPE] if HAS_XLA else []
    found += [accelerator.type] if accelerator is not None else []
    found += [private] if hasattr(torch, private) and devices.facts_of(private).is_here else []
    return list(dict.fromkeys(found))


def lower_precision(device: str) -> tuple[torch.dtype, ...]:
    """Return the lower precisions that the policy lists for a device type, the default first."""
    return _extension.DEVICES[devices.device_of(device)].lower_precision


def for_scaling(device: str) -> torch.dtype:
    """Return the dtype for training with a scaler: float16 if the device supports it, otherwise the default."""
    listed = lower_precision(device)
    return torch.float16 if torch.float16 in listed else listed[0]


@cache
def casts_by_itself(device: str) -> bool:
    """Return whether PyTorch or the backend registers autocast kernels on a device type."""
    key = _extension.DEVICES[devices.device_of(device)].dispatch_key
    with polycast.uninstall():
        registered = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return any(name.startswith("aten::") for name in registered)


def require_lstm(device: str) -> None:
    """Skip a test on the CPU if an LSTM under stock autocast raises there."""
    lstm, inputs = torch.nn.LSTM(1, 1), torch.ones(1, 1, 1)
    try:
        with polycast.uninstall(), torch.autocast(devices.HOST):
            lstm(inputs)
    except RuntimeError as error:
        if device == devices.HOST:
            pytest.skip(f"stock PyTorch has no LSTM in bfloat16 on this CPU: {error}")


def has_float64(device: str) -> bool:
    try:
        return bool(torch.ones((), dtype=torch.float64, device=device).add(1) == 2)
    except (RuntimeError, TypeError):
        return False


def seed(device: str, number: int = 0) -> None:
    """Seed the generators of the CPU and of the device."""
    torch.manual_seed(number)
    if device == devices.XLA_TYPE:
        import torch_xla

        torch_xla.manual_seed(number)


def synchronize(device: str) -> None:
    """Wait until the device has finished its work."""
    if device == devices.XLA_TYPE:
        import torch_xla

        torch_xla.sync(wait=True)
    else:
        torch.get_device_module(device).synchronize()


class Traffic:
    """A counter of compilations and device-to-host transfers since its creation."""

    def __init__(self) -> None:
        from torch_xla.debug import metrics

        metrics.clear_all()
        self._metrics: Any = metrics

    def compiles(self) -> int:
        return int(self._metrics.counter_value("UncachedCompile") or 0)

    def reads(self) -> int:
        data = self._metrics.metric_data("TransferFromDeviceTime")
        return 0 if data is None else int(data[0])


class Reads(TorchDispatchMode):
    """A dispatch mode that lists the ops with a device sync: copies to the CPU, and ops with data-dependent results."""

    def __init__(self, device: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device, self.ops = device, list[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = self._device_types((args, kwargs))
        result = func(*args, **(kwargs or {}))
        is_copy = self.device != devices.HOST and devices.HOST in self._device_types(result)
        tags = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
        if self.device in given and (is_copy or not tags.isdisjoint(func.tags)):
            self.ops.append(str(func))
        return result

    @staticmethod
    def _device_types(values: Any) -> set[str]:
        return {leaf.device.type for leaf in tree_leaves(values) if isinstance(leaf, Tensor)}


@contextmanager
def no_syncs(device: str) -> Iterator[None]:
    """Raise for a device sync in this block. If the device reports no syncs, raise for ops that ``Reads`` lists."""
    if device == devices.XLA_TYPE:
        traffic = Traffic()
        yield
        assert traffic.reads() == 0
        return
    module = torch.get_device_module(device)
    if not hasattr(module, "set_sync_debug_mode"):
        with Reads(device) as reads:
            yield
        assert reads.ops == []
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `torch.cuda` warns that the mode is a prototype.
        module.set_sync_debug_mode("error")
    try:
        yield
    finally:
        module.set_sync_debug_mode("default")


def no_syncs_of_steps(device: str) -> AbstractContextManager[None]:
    """Raise for a device sync in this block, if steps on the device skip without a sync."""
    return no_syncs(device) if devices.facts_of(device).skips_by_itself else nullcontext()


@contextmanager
def required(device: str) -> Iterator[None]:
    """Skip the test if a device other than the CPU cannot run this block. The block must not run polycast's code."""
    try:
        yield
    except Exception as error:
        if device == devices.HOST:
            raise
        pytest.skip(f"{device} does not run it: {str(error).splitlines()[0]:.150}")
