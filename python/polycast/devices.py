"""The differences between devices. Only this file, ``xla/`` and ``policy.yaml`` distinguish devices by name.

A *device*, such as "cuda" or "xla_gpu", has rules in ``policy.yaml``. A *device type* is a ``tensor.device.type``.
"""

import os
import sys
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import torch

from polycast._extension import DEVICES, DEVICES_LIKE
from polycast._suggest import closest
from polycast.torch_internals import constant, privateuse1_name, registrations_for

HOST, XLA_TYPE = "cpu", "xla"
SHAPES_ONLY = "meta"  # this device type has no autocast state
PRIVATEUSE1 = "privateuse1"  # out-of-tree backends that `policy.yaml` does not list have the rules of this device
# These devices are out-of-tree backends with the key of PrivateUse1. A process can load only one of them.
PRIVATE = tuple(name for name, other in DEVICES.items() if other.dispatch_key == DEVICES[PRIVATEUSE1].dispatch_key)
_TYPES = {name: device.dispatch_key.removeprefix("Autocast").lower() for name, device in DEVICES.items()}
# Each key is a package whose import installs the kernels of the device type.
_XLA_PACKAGE = "torch_xla"
LATE = {_XLA_PACKAGE: XLA_TYPE}
# These modules have a class `CheckpointFunction`, which reruns a forward in backward.
CHECKPOINTS = ("torch.utils.checkpoint", "torch_xla.utils.checkpoint")


class DeviceType:
    """A device type of PyTorch, such as "xpu". Subclasses are for types with other properties."""

    # True means that our kernels, or PyTorch's fused kernels, skip steps without a sync. In PyTorch 2.9, MPS's
    # fused kernels ignore `found_inf` and `grad_scale`. XPU's fused kernels need float64, which some XPUs lack.
    skips_by_itself = False
    has_float64 = False  # True means that all devices of this type have float64
    # True means that the backend is outside of PyTorch's repository. Its kernels are overridden only on request, after
    # the backend is loaded. If the backend has registered no fallback by then, polycast registers one.
    is_out_of_tree = False

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def rules(self) -> str:
        """The device of the policy with the rules of this type. Raises a ``ValueError`` if the policy has none."""
        if self.name not in DEVICES or device_type_of(self.name) != self.name:
            raise unknown(self.name, device_types())
        return self.name

    @property
    def is_here(self) -> bool:
        """Whether a device of this type is available."""
        module = getattr(torch, self.name, None)
        return module is not None and getattr(module, "is_available", lambda: True)()

    def check_region(self) -> None:
        """Raise an error for a region if the backend of this type is not loaded."""

    def overrides(self) -> list[str]:
        """Return a sentence for each setting that overrides the policy in regions."""
        return []

    def end_step(self) -> None:
        """Run the ops that a step has recorded, on a device that records ops and runs them later."""


class Fused(DeviceType):
    """A device type on which PyTorch's fused optimizers skip and unscale as PyTorch documents."""

    skips_by_itself = has_float64 = True


class OutOfTree(DeviceType):
    """An out-of-tree backend that has a dispatch key of its own."""

    is_out_of_tree = True


class PrivateUse1(OutOfTree):
    """The out-of-tree backend that this process registered for PrivateUse1. ``policy.yaml`` may list its name."""

    @property
    def rules(self) -> str:
        return self.name if self.name in PRIVATE else PRIVATEUSE1

    def check_region(self) -> None:
        if not hasattr(torch, self.name):
            raise unknown(PRIVATEUSE1, device_types())


class XLA(DeviceType):
    """XLA, a device type with two devices of the policy. The hardware that ``torch_xla`` uses selects one of them."""

    skips_by_itself = has_float64 = True

    @property
    def rules(self) -> str:
        if not self.is_here:
            return "xla"
        from torch_xla import runtime

        # All other types of hardware, such as TPU, NEURON and CPU, have the rules of `xla`.
        return "xla_gpu" if runtime.device_type() in ("CUDA", "ROCM", "GPU") else "xla"

    @property
    def is_here(self) -> bool:
        return sys.modules.get(_XLA_PACKAGE) is not None  # an entry of None blocks the import

    def check_region(self) -> None:
        if not self.is_here:
            raise RuntimeError(f"device_type: 'xla' requires {_XLA_PACKAGE}, which is not imported; import it first")

    def overrides(self) -> list[str]:
        return [
            f"{name} is set: torch_xla may run every floating-point operation in bfloat16 and ignore the policy; "
            f"unset {name}"
            for name in ("XLA_USE_BF16", "XLA_DOWNCAST_BF16")
            if os.environ.get(name, "0") not in ("", "0", "false")
        ]

    def end_step(self) -> None:
        import torch_xla

        torch_xla.sync()


@constant
def is_xla_in_use() -> bool:
    """Return whether the runtime of ``torch_xla`` has started. The first tensor on an XLA device starts the runtime."""
    import torch_xla

    return bool(torch_xla._XLAC._xla_runtime_is_initialized())


_DIFFERENT = {
    each.name: each for each in (Fused(HOST), Fused("cuda"), Fused(SHAPES_ONLY), XLA(XLA_TYPE), OutOfTree("hpu"))
}


def facts_of(device_type: str) -> DeviceType:
    """Return the facts about any device type, with or without rules in the policy."""
    if device_type in _DIFFERENT:  # this check is first, because each step of an optimizer runs it
        return _DIFFERENT[device_type]
    backend = privateuse1_name()
    return PrivateUse1(backend) if device_type in (PRIVATEUSE1, backend) else DeviceType(device_type)


def device_of(device_type: str) -> str:
    """Return the device of the policy that has the rules of a device type.

    Raises:
        ValueError: If the policy has no rules for the device type.
    """
    return facts_of(device_type).rules


def device_type_of(device: str) -> str:
    """Return PyTorch's device type for a device of the policy, according to its dispatch key."""
    device_type = _TYPES[device]
    return privateuse1_name() if device_type == PRIVATEUSE1 else device_type


def device_types() -> list[str]:
    """Return the device types for which the policy has rules."""
    return list(dict.fromkeys(map(device_type_of, DEVICES)))


def served() -> list[str]:
    """Return the device types that PyTorch itself supports, and XLA if ``torch_xla`` is loaded."""
    late = () if facts_of(XLA_TYPE).is_here else (XLA_TYPE,)
    return [name for name in device_types() if not facts_of(name).is_out_of_tree and name not in late]


def current() -> str:
    """Return the device type of this process's accelerator, otherwise "xla" if XLA is in use, otherwise "cpu".

    Raises:
        RuntimeError: If no accelerator is found, and ``torch_xla`` is imported but not in use.
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None:
        return accelerator.type
    if facts_of(XLA_TYPE).is_here and not is_xla_in_use():
        raise RuntimeError(
            f"{_XLA_PACKAGE} is imported, but no XLA device is in use yet; pass the device type of the region, "
            f"as in polycast.autocast('{HOST}')"
        )
    return XLA_TYPE if facts_of(XLA_TYPE).is_here else HOST


def own_kernels(device_type: str) -> list[str]:
    """Return the reason why polycast does not replace a backend's own autocast kernels, in a list that may be empty.

    It is empty if ``policy.yaml`` lists the backend, or there are no such kernels. Our kernels must not be installed.
    """
    if device_of(device_type) != PRIVATEUSE1 or not any(
        name.startswith("aten::") for name in registrations_for(DEVICES[PRIVATEUSE1].dispatch_key)
    ):
        return []
    return [
        f"{device_type} has autocast kernels of its own, and policy.yaml has no rules for it, so its regions run these "
        f"kernels; to override them, call polycast.install('{device_type}', like='{DEVICES_LIKE[PRIVATEUSE1]}')"
    ]


def parse_device_type(device: str | torch.device, argument: str = "device") -> str:
    """Return the device type of a string, such as "cuda" or "cuda:1", or of a ``torch.device``.

    Raises:
        TypeError: If the device is neither a string nor a ``torch.device``.
    """
    if isinstance(device, str):
        return device.partition(":")[0]
    if isinstance(device, torch.device):
        return device.type
    raise TypeError(f"{argument}: expected a string or a torch.device, got {device!r}; pass one, such as '{HOST}'")


def known_device_type(device: str | torch.device, argument: str = "device") -> str:
    """Return the device type of a device that PyTorch has.

    Raises:
        TypeError: If the device is neither a string nor a ``torch.device``.
        ValueError: If PyTorch has no such device type.
    """
    device_type = parse_device_type(device, argument)
    try:
        return torch.device(device_type).type
    except RuntimeError:
        raise unknown(device_type, device_types(), argument) from None


def unknown(device_type: str, known: Collection[str], argument: str = "device_type") -> ValueError:
    """Return the error for a name that is not a device type with rules in the policy."""
    if device_type in PRIVATE:
        return ValueError(f"{argument}: expected a loaded backend, got '{device_type}'; first import its package")
    if device_type in DEVICES and device_type_of(device_type) != device_type:
        return ValueError(
            f"{argument}: expected '{device_type_of(device_type)}', got '{device_type}'; pass "
            f"'{device_type_of(device_type)}', which has the rules of '{device_type}' when {_XLA_PACKAGE} runs on a GPU"
        )
    near = closest(device_type, known)
    # We suggest only names that contain all letters of the given name: "gpu" is not a misspelling of "xpu".
    hint = f"did you mean '{near}'?" if near and {*device_type.lower()} <= {*near} else "pass one of these"
    return ValueError(f"{argument}: expected one of {', '.join(known)}, got '{device_type}'; {hint}")


def random_state() -> Callable[[], None]:
    """Return a function that restores the present random states of the CPU, all accelerators, and XLA if in use."""
    states: list[Callable[[], object]] = [partial(torch.set_rng_state, torch.get_rng_state())]
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    module: Any = None if accelerator is None else getattr(torch, accelerator.type, None)
    is_in_use = getattr(module, "is_initialized", lambda: True)()  # a query would initialize the device
    if is_in_use and hasattr(module, "get_rng_state") and hasattr(module, "set_rng_state"):
        for index in range(torch.accelerator.device_count()):
            states.append(partial(module.set_rng_state, module.get_rng_state(index), index))
    if facts_of(XLA_TYPE).is_here and is_xla_in_use():
        from torch_xla.core import xla_model

        states.append(partial(xla_model.set_rng_state, int(xla_model.get_rng_state())))

    def restore() -> None:
        for put_back in states:
            put_back()

    return restore
