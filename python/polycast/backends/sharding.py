"""Modules whose parameters change their storage while they count no versions."""

import sys

from torch import nn

_PACKAGE = "torch.distributed.fsdp"
_NAMES = ("FSDPModule", "FullyShardedDataParallel")


def managers() -> tuple[type[nn.Module], ...]:
    """Return the classes of such modules, none where the package is not loaded."""
    package = sys.modules.get(_PACKAGE)
    return tuple(getattr(package, name) for name in _NAMES if hasattr(package, name))
