"""What a program changes: random state, and a model's buffers and gradients."""

import random
import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from polycast import backends


class Snapshot:
    """Buffers, gradients and random state: which tensors there are, and copies of what they hold."""

    def __init__(self, model: nn.Module | None) -> None:
        self._random = backends.random_state(), random.getstate()
        self._numpy_random = None if _numpy_random() is None else _numpy_random().get_state()
        self._buffers = [
            (module, name, buffer, buffer.clone())
            for module in (() if model is None else model.modules())
            for name, buffer in module.named_buffers(recurse=False)
            if _is_kept(buffer)
        ]
        self._gradients = [
            (weight, weight._version, weight.grad, None if weight.grad is None else weight.grad.clone())
            for weight in (() if model is None else model.parameters())
            if _is_kept(weight)
        ]

    @torch.no_grad()
    def put_back(self) -> None:
        """Put back all values, in the tensors that were there."""
        backends.set_random_state(self._random[0])
        random.setstate(self._random[1])
        if self._numpy_random is not None:
            _numpy_random().set_state(self._numpy_random)
        for module, name, buffer, values in self._buffers:
            module._buffers[name] = buffer.copy_(values)
        for weight, _, gradient, given in self._gradients:
            weight.grad = gradient
            if gradient is not None and given is not None:
                gradient.copy_(given)

    def changed_weight(self) -> nn.Parameter | None:
        """Return a weight that has been written since."""
        return next((weight for weight, version, *_ in self._gradients if weight._version != version), None)


def _numpy_random() -> Any:
    """Return NumPy's module of random numbers; None if nobody has imported it."""
    return sys.modules.get("numpy.random")


def _is_kept(tensor: Tensor) -> bool:
    """Return whether a tensor has values yet, and can be written."""
    return not (is_lazy(tensor) or tensor.is_inference())


class ProgramState:
    """Puts back what a first run changed, for a second one, and at the end what the first run left."""

    def __init__(self, model: nn.Module | None) -> None:
        self._model = model

    def __enter__(self) -> "ProgramState":
        self._before = Snapshot(self._model)
        self._after: Snapshot | None = None
        return self

    def put_back(self) -> None:
        """Put back what was there at the start, and remember what is there now.

        Raises:
            RuntimeError: A weight has changed, which is not put back.
        """
        weight = self._before.changed_weight()
        if weight is not None:
            raise RuntimeError(
                f"the program changed a weight of shape {tuple(weight.shape)}, which is not put back for the second "
                "run; leave the optimizer's step out of it"
            )
        self._after = Snapshot(self._model)
        self._before.put_back()

    def __exit__(self, *_: object) -> None:
        if self._after is not None:
            self._after.put_back()
