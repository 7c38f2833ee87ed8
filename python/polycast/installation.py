"""What importing polycast does to torch, all in this module, and how it is undone.

- Autocast kernels of the policy are registered with torch's dispatcher, device by device (`install`).
- `CHANGES` lists what is replaced or registered elsewhere in torch. It holds as long as any device is installed.
- Compiled code holds the casts of the policy that it was compiled under. So it does not run again after a change of the
  kernels, and the keys of the on-disk caches name what is installed (`follow_kernels`).

`uninstall()` undoes all of these, and POLYCAST_INSTALL=0 prevents them until `install` is called. Some registrations
concern our own functions and operators only, and stay: the operators `torch.ops.polycast` with their kernels for XLA
(backends/xla_kernels), what dynamo knows of our functions (scope/compiled_code.py), what TorchScript compiles for
`polycast.autocast` (region.py), and the import hooks that wait for torch_xla and torch._dynamo.
"""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import torch.compiler.config

from polycast import backends, cast_cache, policy
from polycast._compiled import (
    BUILD,
    DEVICES,
    install_kernels,
    installed_kernels,
    refresh_kernels,
    uninstall_kernels,
)
from polycast.backends import xla_kernels
from polycast.scope import checkpoint, compiled_code, module, process

ENVIRONMENT_SWITCH = "POLYCAST_INSTALL"
# Each changes a module of torch, when the module is imported, and undoes the change at its end.
CHANGES: tuple[tuple[str, Callable[[ModuleType], AbstractContextManager[None]]], ...] = (
    *((name, checkpoint.keep_policies) for name in backends.CHECKPOINTS),
    ("torch.fx", module.check_models),
    ("torch.optim.optimizer", cast_cache.follow_steps),
    ("torch._dynamo", compiled_code.number_scopes),
)
_TAG = "polycast:"
# How often kernels were installed or taken out.
changes = 0
# The changes that hold, by their modules. A reload of this module keeps them.
_held: dict[str, AbstractContextManager[None]] = globals().get("_held", {})
# Devices with the same dispatch key, of which one can be installed at a time.
_SIBLINGS = {
    name: [other.name for other in DEVICES.values() if other.name != name and other.dispatch_key == device.dispatch_key]
    for name, device in DEVICES.items()
}


def on_import() -> None:
    """Do what `import polycast` does."""
    xla_kernels.register_on_import()
    backends.once_imported("torch._dynamo", compiled_code.describe)
    for name, _ in CHANGES:
        backends.once_imported(name, _change)
    if os.environ.get(ENVIRONMENT_SWITCH, "1").lower() not in ("0", "false", "no", "off"):
        install()
        for package in backends.LATE:
            if package not in sys.modules:
                backends.once_imported(package, _install_late)
    process.use_on_import()


def install(*devices: str | torch.device) -> None:
    """Register the policy's autocast kernels of the named devices on top of torch's, and what goes with them.

    Args:
        devices: Device types as in ``torch.device(...).type``, "xla" standing for the rules of the hardware that
            torch_xla runs on, and a backend outside of torch going by the name that it registered. Without any: every
            device that torch itself serves, and XLA where torch_xla is loaded.

    A device that is installed already is installed anew, on top of what was registered since.

    Raises:
        ValueError: the policy has no such device.

    Example:
        >>> import polycast
        >>> polycast.install("cpu")
        >>> "cpu" in polycast.installed()
        True
    """
    names = [backends.device_of(backends.parse_device_type(device)) for device in devices or backends.served()]
    try:
        for name in names:
            for sibling in _SIBLINGS[name]:
                uninstall_kernels(sibling)
            install_kernels(name, name in backends.ON_REQUEST)
    finally:
        follow_kernels()


def uninstall(*devices: str | torch.device) -> None:
    """Bring torch's own autocast kernels back, for the named devices, or for all without any.

    With the last device goes all that importing polycast changes in torch: checkpoints, torch.fx, torch.compile and the
    hook after optimizers' steps are torch's own again. What was compiled meanwhile does not run again.

    Args:
        devices: As for :func:`install`, or as :func:`installed` names them.

    Raises:
        ValueError: the policy has no such device.

    Example:
        >>> import polycast
        >>> polycast.uninstall("cpu")
        >>> "cpu" in polycast.installed()
        False
        >>> polycast.install("cpu")
    """
    names = [_installed_name(device) for device in devices]
    for name in names if devices else installed_kernels():
        uninstall_kernels(name)
    follow_kernels()


def _installed_name(device: str | torch.device) -> str:
    name = backends.parse_device_type(device)
    known = name in DEVICES and name != backends.PRIVATEUSE1
    return name if known or name in installed_kernels() else backends.device_of(name)


def installed() -> tuple[str, ...]:
    """Return the devices of the policy whose kernels are registered, in the order of the policy."""
    return tuple(installed_kernels())


def follow_hardware(device: str) -> None:
    """Install a device of the policy in the place of its sibling, if the hardware was taken for that before.

    The runtime of a device may settle on its hardware after the import.
    """
    if any(sibling in installed_kernels() for sibling in _SIBLINGS[device]):
        install(backends.device_type_of(device))


def _install_late(package: ModuleType) -> None:
    install(*backends.LATE[package.__name__])


def follow_kernels() -> None:
    """Make the rest of torch follow the kernels that are registered now."""
    global changes
    changes += 1
    refresh_kernels()
    _mark_caches()
    compiled_code.forget()
    if installed_kernels():
        for name, _ in CHANGES:
            if name in sys.modules and not getattr(sys.modules[name].__spec__, "_initializing", False):
                _change(sys.modules[name])  # a module that another thread is importing is changed after that
    else:
        while _held:
            _held.popitem()[1].__exit__(None, None, None)


def _change(torchs: ModuleType) -> None:
    """Make the change of a module that is imported, if any device is installed."""
    if installed_kernels() and torchs.__name__ not in _held:
        change = _held[torchs.__name__] = dict(CHANGES)[torchs.__name__](torchs)
        change.__enter__()


class _Tag(str):
    """The installed devices, in keys of on-disk caches. A key also gets the policy in force where it is made."""

    def __reduce__(self) -> tuple[Any, ...]:
        held = policy.in_force()
        return str, (f"{self} {_TAG}{held.digest}" if held else str(self),)


def _mark_caches() -> None:
    others = [part for part in torch.compiler.config.cache_key_tag.split() if not part.startswith(_TAG)]
    names = installed_kernels()
    tag = " ".join([*others, f"{_TAG}{BUILD}:{','.join(names)}"] if names else others)
    torch.compiler.config.cache_key_tag = _Tag(tag) if names else tag
