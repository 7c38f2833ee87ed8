"""Installation of the policy's kernels in torch's dispatcher, and their removal.

Whatever torch.compile has compiled holds the casts of the policy it was compiled under. So each change of the installed
policy drops the compiled code of this process, and marks the keys of the on-disk caches with what is installed.
"""

import os
import sys
from types import ModuleType

import torch
import torch.compiler.config

from polycast import backends
from polycast._compiled import BUILD, DEVICES, install_kernels, installed_kernels, uninstall_kernels

ENVIRONMENT_SWITCH = "POLYCAST_INSTALL"
_TAG = "polycast:"
# How often kernels were installed or taken out.
changes = 0
# Columns with the same dispatch key, of which one can be installed at a time.
_SIBLINGS = {
    name: [other.name for other in DEVICES.values() if other.name != name and other.dispatch_key == device.dispatch_key]
    for name, device in DEVICES.items()
}


def install(*devices: str | torch.device) -> None:
    """Register the policy's autocast kernels of the named devices on top of torch's.

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
    columns = [backends.column(backends.kind_of(device)) for device in devices or backends.served()]
    try:
        for column in columns:
            for sibling in _SIBLINGS[column]:
                uninstall_kernels(sibling)
            install_kernels(column, column in backends.ON_REQUEST)
    finally:
        _forget_compiled_code()


def uninstall(*devices: str | torch.device) -> None:
    """Bring torch's own autocast kernels back, for the named devices, or for all without any.

    Args:
        devices: As for :func:`install`, or columns as :func:`installed` names them.

    Raises:
        ValueError: the policy has no such device.

    Example:
        >>> import polycast
        >>> polycast.uninstall("cpu")
        >>> "cpu" in polycast.installed()
        False
        >>> polycast.install("cpu")
    """
    names = [_column(device) for device in devices]
    for column in names if devices else installed_kernels():
        uninstall_kernels(column)
    _forget_compiled_code()


def _column(device: str | torch.device) -> str:
    kind = backends.kind_of(device)
    return kind if kind in DEVICES else backends.column(kind)


def installed() -> tuple[str, ...]:
    """Return the columns of the policy whose kernels are registered, in the order of the policy."""
    return tuple(installed_kernels())


def follow_hardware(column: str) -> None:
    """Put a column in the place of an installed sibling, which stands for what the hardware was taken for before.

    The runtime of a device may settle on its hardware after the import.
    """
    if any(sibling in installed_kernels() for sibling in _SIBLINGS[column]):
        install(backends.type_of(column))


def install_on_import() -> None:
    """Install what ``import polycast`` installs; the environment variable POLYCAST_INSTALL=0 switches it off."""
    if os.environ.get(ENVIRONMENT_SWITCH, "1").lower() in ("0", "false", "no", "off"):
        return
    install()
    for package in backends.LATE:
        if package not in sys.modules:
            backends.once_imported(package, _install_late)


def _install_late(package: ModuleType) -> None:
    install(*backends.LATE[package.__name__])


def _forget_compiled_code() -> None:
    global changes
    changes += 1
    others = [part for part in torch.compiler.config.cache_key_tag.split() if not part.startswith(_TAG)]
    columns = installed_kernels()
    if columns:
        others.append(f"{_TAG}{BUILD}:{','.join(columns)}")
    torch.compiler.config.cache_key_tag = " ".join(others)
    dynamo: ModuleType | None = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()
