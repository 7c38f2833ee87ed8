"""Automatic mixed precision (``torch.amp``) that you can inspect, change per op, and debug.

Importing the package installs polycast's autocast kernels for every device that PyTorch itself supports. The kernels
for XLA are installed as well if ``torch_xla`` is imported, before or after polycast. With ``POLYCAST_INSTALL=0`` in the
environment, the import installs no kernels, and :func:`install` installs them on request.

    >>> import torch, polycast
    >>> with polycast.autocast("cpu"):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from polycast import _extension, cast_cache, installation, policy
from polycast.custom_function import custom_bwd, custom_fwd
from polycast.installation import install, installed, uninstall
from polycast.policy.policy import Policy, PolicyError
from polycast.region import autocast
from polycast.scope.assignment import assign, assigned
from polycast.scope.contexts import Region
from polycast.scope.process import use

if TYPE_CHECKING:
    from polycast import debug, syncfree
    from polycast.scaler.grad_scaler import GradScaler
    from polycast.scaler.schedule import SkipAwareLR

__all__ = [
    "GradScaler",
    "Policy",
    "PolicyError",
    "Region",
    "SkipAwareLR",
    "assign",
    "assigned",
    "autocast",
    "cast_cache",
    "custom_bwd",
    "custom_fwd",
    "debug",
    "install",
    "installed",
    "policy",
    "syncfree",
    "uninstall",
    "use",
]
__version__ = _extension.VERSION
# These modules register kernels with PyTorch, so they are imported only if a program uses them.
_LATER = {
    "GradScaler": "polycast.scaler.grad_scaler",
    "SkipAwareLR": "polycast.scaler.schedule",
    "debug": "polycast.debug",
    "syncfree": "polycast.syncfree",
}

installation.on_import()


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # type checkers would otherwise accept any attribute name

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        module = import_module(_LATER[name])
        value = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
        globals()[name] = value
        return value
