"""What is particular to one backend. Only policy.yaml and this folder know devices by name."""

import torch

from polycast._compiled import DEVICES
from polycast.backends import xla

HOST = "cpu"
# Packages that bring a backend, and the devices to install once such a package has been imported.
LATE = {xla.PACKAGE: (xla.TYPE,)}


def column(device_type: str) -> str:
    """Return the column of the policy that a device type takes its rules from."""
    name = xla.column() if device_type == xla.TYPE else device_type
    if name not in DEVICES:
        raise ValueError(f"polycast has no device '{device_type}' in its policy; it has {', '.join(DEVICES)}")
    return name


def served() -> list[str]:
    """Return the device types whose autocast fallback is registered: by torch itself, or by a loaded torch_xla."""
    types = []
    for name in DEVICES:
        device_type = xla.TYPE if name in xla.COLUMNS else name
        if device_type not in types and (device_type != xla.TYPE or xla.is_loaded()):
            types.append(device_type)
    return types


def current() -> str:
    """Return the type of the accelerator of this process, that of the host where there is none."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None:
        return accelerator.type
    return xla.TYPE if xla.is_loaded() else HOST


def check_region(device_type: str) -> None:
    """Warn of, or refuse, what would make a region on the device do something else than its policy."""
    if device_type == xla.TYPE:
        xla.check_region()
