"""Facts of single backends: names, hardware, packages. Only policy.yaml and this folder name devices."""

from collections.abc import Iterable
from typing import Any

import torch

from polycast._compiled import ALSO_CALLED, DEVICES
from polycast._suggest import suggestion
from polycast.backends import xla

HOST = "cpu"
# Devices that have float64 and whose fused optimizers skip and unscale as documented. In torch 2.9 those of MPS ignore
# found_inf and grad_scale, and those of XPU compute in float64, which not every XPU has.
FUSED: tuple[str, ...] = (HOST, "cuda")
PRIVATEUSE1 = "privateuse1"  # the device of an out-of-tree backend that the policy has no device named as it
# The devices of out-of-tree backends. A process can load one of these backends.
PRIVATE = tuple(name for name, other in DEVICES.items() if other.dispatch_key == DEVICES[PRIVATEUSE1].dispatch_key)
SHAPES_ONLY = "meta"  # it has no autocast state
# From the package of a backend to the devices that are installed once it is imported.
LATE = {xla.PACKAGE: (xla.TYPE,)}
# Modules with a class CheckpointFunction, which reruns a forward in backward.
CHECKPOINTS = ("torch.utils.checkpoint", xla.CHECKPOINT)
# The devices whose backends are outside of torch's repository. Their kernels are overridden on request only, after the
# backend is loaded: if it then has registered no fallback, we register one.
ON_REQUEST = ("hpu", *PRIVATE)


def device_type_of(device: str) -> str:
    """Return torch's device type for a device of the policy: the one of its dispatch key."""
    device_type = DEVICES[device].dispatch_key.removeprefix("Autocast").lower()
    return torch._C._get_privateuse1_backend_name() if device_type == PRIVATEUSE1 else device_type


def device_types() -> list[str]:
    """Return the device types that the policy has rules for."""
    return list(dict.fromkeys(map(device_type_of, DEVICES)))


def parse_device_type(device: str | torch.device) -> str:
    """Return the device type of what a user gives: a str, with or without an index, or a ``torch.device``.

    Raises:
        TypeError: The device is neither.
    """
    if isinstance(device, torch.device):
        return device.type
    if isinstance(device, str):
        return device.partition(":")[0]
    raise TypeError(f"the device is {device!r}; give a text such as '{HOST}', or a torch.device")


def known_device_type(device: str | torch.device) -> str:
    """Return the device type of a device that torch knows.

    Raises:
        TypeError: The device is neither a str nor a ``torch.device``.
        ValueError: Torch knows no such device.
    """
    device_type = parse_device_type(device)
    try:
        return torch.device(device_type).type
    except RuntimeError:
        raise unknown(device_type, device_types()) from None


def unknown(device_type: str, known: Iterable[str]) -> ValueError:
    """Return the error for a device type that the policy has no rules for."""
    names = list(known)
    if device_type in PRIVATE:
        return ValueError(
            f"'{device_type}' is a backend outside of torch that is not loaded here; import the package that registers "
            f"it first{suggestion(ALSO_CALLED.get(device_type, ''), names)}"
        )
    if device_type in DEVICES and device_type_of(device_type) != device_type:
        return ValueError(
            f"'{device_type}' is a device of the policy that the hardware chooses; name '{device_type_of(device_type)}'"
        )
    meant = ALSO_CALLED.get(device_type.lower(), device_type.lower())
    close = suggestion(meant, names) if meant != device_type or not _is_of_torch(device_type) else ""
    return ValueError(f"polycast has no device '{device_type}' in its policy; it has {', '.join(names)}{close}")


def _is_of_torch(device_type: str) -> bool:
    try:
        return torch.device(device_type).type == device_type
    except RuntimeError:
        return False


def device_of(device_type: str) -> str:
    """Return the device of the policy that has the rules of a device type.

    Raises:
        ValueError: The policy has no rules for the device type.
    """
    if device_type == xla.TYPE:
        return xla.device()
    backend = torch._C._get_privateuse1_backend_name()
    if device_type in (PRIVATEUSE1, backend):
        return backend if backend in PRIVATE else PRIVATEUSE1
    if device_type not in DEVICES or device_type in (*xla.DEVICES, *PRIVATE):
        raise unknown(device_type, device_types())
    return device_type


def random_state() -> list[Any]:
    """Return the states of the random generators in use: the host's, XLA's, and one for each accelerator device."""
    module = _accelerator_with_random_state()
    count = 0 if module is None else torch.accelerator.device_count()
    return [torch.get_rng_state(), xla.random_state(), *(module.get_rng_state(index) for index in range(count))]


def set_random_state(state: list[Any]) -> None:
    """Restore the states that :func:`random_state` returned."""
    host, on_xla, *states = state
    torch.set_rng_state(host)
    xla.set_random_state(on_xla)
    for index, of_device in enumerate(states):
        _accelerator_with_random_state().set_rng_state(of_device, index)


def seed(number: int) -> None:
    """Seed the random generators in use."""
    torch.manual_seed(number)  # all but XLA's
    if xla.random_state() is not None:
        xla.set_random_state(number)


def _accelerator_with_random_state() -> Any:
    """Return torch's module of the accelerator, or None if there is none whose random state can be read and set."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    module = None if accelerator is None else getattr(torch, accelerator.type, None)
    return module if hasattr(module, "get_rng_state") and hasattr(module, "set_rng_state") else None


def served() -> list[str]:
    """Return the device types that torch itself serves, and XLA where torch_xla is loaded."""
    late = () if xla.is_loaded() else (xla.TYPE,)
    return [name for name in device_types() if device_of(name) not in ON_REQUEST and name not in late]


def current() -> str:
    """Return the device type of this process's accelerator, or that of the host if there is none.

    Raises:
        RuntimeError: torch_xla is imported and no XLA device is in use, so either XLA or the host may be meant.
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None:
        return accelerator.type
    if xla.is_loaded() and not xla.is_in_use():
        raise RuntimeError(
            f"{xla.PACKAGE} is imported, and no XLA device is in use yet; name the device that this region is for, "
            f"as in polycast.autocast('{HOST}')"
        )
    return xla.TYPE if xla.is_loaded() else HOST


def is_here(device_type: str) -> bool:
    """Return whether torch finds a device of this device type."""
    if device_type == xla.TYPE:
        return xla.is_loaded()
    module = getattr(torch, device_type, None)
    return module is not None and getattr(module, "is_available", lambda: True)()


def skips_by_itself(device_type: str) -> bool:
    """Return whether steps on a device type skip without a read, by our kernels or by torch's fused ones."""
    return device_type in (*FUSED, xla.TYPE, SHAPES_ONLY)


def has_float64(device_type: str) -> bool:
    """Return whether all devices of a device type are known to have float64."""
    return device_type in (*FUSED, xla.TYPE)


def check_region(device_type: str) -> None:
    """Raise for a region on a device whose backend is not loaded."""
    if device_type == torch._C._get_privateuse1_backend_name() and not hasattr(torch, device_type):
        raise unknown(PRIVATEUSE1, device_types())
    if device_type == xla.TYPE and not xla.is_loaded():
        raise RuntimeError(f"an autocast region on xla needs {xla.PACKAGE}; import {xla.PACKAGE} first")


def synchronize(device_type: str, *, wait: bool = True) -> None:
    """End a step: XLA runs what was traced. Then wait, if asked for, until a device has done all that it was given."""
    if device_type == xla.TYPE:
        xla.synchronize(wait=wait)
    elif wait:
        getattr(getattr(torch, device_type, None), "synchronize", lambda: None)()  # no module has SHAPES_ONLY


def overrides(device_type: str) -> list[str]:
    """Return a sentence for each setting that overrides the policy in the regions of a device."""
    return xla.overrides() if device_type == xla.TYPE else []
