"""The module classes of FSDP, which changes the storage of parameters and counts no versions."""

import sys

from torch import nn

_PACKAGE = "torch.distributed.fsdp"
_NAMES = ("FSDPModule", "FullyShardedDataParallel")


def managers() -> tuple[type[nn.Module], ...]:
    """Return the classes of FSDP's modules, or none if FSDP is not imported."""
    package = sys.modules.get(_PACKAGE)
    return tuple(getattr(package, name) for name in _NAMES if hasattr(package, name))
