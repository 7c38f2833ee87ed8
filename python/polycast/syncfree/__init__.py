"""Optimizers whose step takes what a gradient scaler knows as tensors, and skips on the device.

They are torch.optim's SGD, Adam and AdamW: their arguments, their state, their checkpoints, in both directions. A step
is one fused pass on the CPU, one computation on XLA, and torch's own fused kernels on cuda. It reads nothing
back: where ``found_inf`` is not zero it writes nothing, on the device itself.

    >>> import torch
    >>> from polycast import syncfree
    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = syncfree.SGD([weight], lr=0.5)
    >>> weight.grad = torch.tensor([2.0, 4.0])
    >>> optimizer.step(grad_scale=torch.tensor(2.0))
    >>> weight.tolist()
    [0.5, 0.0]
    >>> optimizer.step(found_inf=torch.tensor(1.0))
    >>> weight.tolist()
    [0.5, 0.0]
"""

from polycast.syncfree.adam import Adam, AdamW
from polycast.syncfree.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW"]


def __dir__() -> list[str]:
    return __all__
