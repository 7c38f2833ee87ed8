"""Registers the operators' kernels for XLA with torch's dispatcher. They need torch_xla when they are called."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.library import Library

from polycast.backends.xla_kernels import optim, scale


def register(library: Library) -> None:
    """Register the operators' kernels in a library.

    Functionalization wraps all XLA tensors, and raises for an operator that writes and is not ATen's. So such operators
    are registered above it, on autograd's key. Fake tensors have that key too; their calls are redispatched.
    """
    for pure in (scale.find_non_finite, scale.norm):
        library.impl(pure.__name__, pure, "XLA")  # type: ignore[no-untyped-call]
    for function in (optim.adam_step_, optim.sgd_step_, scale.unscale_, scale.update_scale_):
        library.impl(function.__name__, _unless_fake(function), "AutogradXLA")  # type: ignore[no-untyped-call]


def _unless_fake(function: Callable[..., Tensor | None]) -> Callable[..., Tensor | None]:
    packet = getattr(torch.ops.polycast, function.__name__)

    def kernel(*args: Any, **kwargs: Any) -> Tensor | None:
        first = args[0][0] if isinstance(args[0], list) and args[0] else args[0]
        if hasattr(first, "fake_device"):
            with torch._C._AutoDispatchBelowAutograd():
                result: Tensor | None = packet(*args, **kwargs)
                return result
        return function(*args, **kwargs)

    return kernel
