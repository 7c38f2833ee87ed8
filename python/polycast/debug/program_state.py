"""The state that a program changes: random numbers, and a model's buffers and gradients."""

import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from polycast import devices


class ProgramState:
    """A snapshot of the random state, and of a model's buffers and gradients."""

    def __init__(self, model: nn.Module | None) -> None:
        self._random: list[Callable[[], object]] = [devices.random_state(), partial(random.setstate, random.getstate())]
        numpy_random: Any = sys.modules.get("numpy.random")  # None if the program has not imported NumPy
        if numpy_random is not None:
            self._random.append(partial(numpy_random.set_state, numpy_random.get_state()))
        self._buffers = [
            (module, name, buffer, buffer.clone())
            for module in (() if model is None else model.modules())
            for name, buffer in module.named_buffers(recurse=False)
            if _has_values(buffer)
        ]
        self._gradients = [
            (weight, weight._version, weight.grad, None if weight.grad is None else weight.grad.clone())
            for weight in (() if model is None else model.parameters())
            if _has_values(weight)
        ]

    def check_weights(self) -> None:
        """Raise a RuntimeError if a weight was written after the snapshot."""
        for weight, version, *_ in self._gradients:
            if weight._version != version:
                raise RuntimeError(
                    f"run: expected a program that changes no weight, got a change of a weight of shape "
                    f"{tuple(weight.shape)}; remove the optimizer's step from the program"
                )

    @torch.no_grad()
    def restore(self) -> None:
        """Restore the random state, and the values of buffers and gradients in their original tensors."""
        for restore in self._random:
            restore()
        for module, name, buffer, values in self._buffers:
            module._buffers[name] = buffer.copy_(values)
        for weight, _, gradient, given in self._gradients:
            weight.grad = gradient
            if gradient is not None and given is not None:
                gradient.copy_(given)


def _has_values(tensor: Tensor) -> bool:
    """Return whether a tensor is initialized and can be written."""
    return not (is_lazy(tensor) or tensor.is_inference())
