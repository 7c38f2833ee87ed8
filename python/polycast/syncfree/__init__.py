"""Optimizers whose step unscales, clips and skips on the device, without a device sync.

The optimizers have the arguments and the state of ``SGD``, ``Adam`` and ``AdamW`` in ``torch.optim``. The classes of
both packages can load each other's checkpoints. For each group, a step is one fused pass on the CPU, one computation on
XLA, and PyTorch's fused kernels on cuda. If ``found_inf`` is not zero, the step changes no value. The docstring of the
method ``step`` lists the groups whose step syncs.
"""

from polycast.syncfree.adam import Adam, AdamW
from polycast.syncfree.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW"]


def __dir__() -> list[str]:
    return __all__
