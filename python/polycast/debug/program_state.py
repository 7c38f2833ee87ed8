"""What a program changes: random state, and a model's buffers and gradients."""

import random
import sys
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from polycast import backends


class _Buffer(NamedTuple):
    module: nn.Module
    name: str
    tensor: Tensor
    values: Tensor


class _Gradient(NamedTuple):
    weight: nn.Parameter
    tensor: Tensor | None
    values: Tensor | None


class _Snapshot:
    """Buffers, gradients and random state: which tensors there are, and what is in them."""

    def __init__(self, model: nn.Module | None) -> None:
        self._random = backends.random_state()
        self._python_random = random.getstate()
        self._numpy_random = None if _numpy_random() is None else _numpy_random().get_state()
        modules = [] if model is None else list(model.modules())
        self._buffers = [
            _Buffer(module, name, buffer, buffer.clone())
            for module in modules
            for name, buffer in module.named_buffers(recurse=False)
            if _is_kept(buffer)
        ]
        weights = [] if model is None else [weight for weight in model.parameters() if _is_kept(weight)]
        self._gradients = [
            _Gradient(weight, weight.grad, None if weight.grad is None else weight.grad.clone()) for weight in weights
        ]
        self._versions = [weight._version for weight in weights]

    @torch.no_grad()
    def put_back(self) -> None:
        """Have all be as it was, in the tensors that were there."""
        backends.set_random_state(self._random)
        random.setstate(self._python_random)
        if self._numpy_random is not None:
            _numpy_random().set_state(self._numpy_random)
        for buffer in self._buffers:
            buffer.tensor.copy_(buffer.values)
            buffer.module._buffers[buffer.name] = buffer.tensor
        for gradient in self._gradients:
            if gradient.tensor is not None and gradient.values is not None:
                gradient.tensor.copy_(gradient.values)
            gradient.weight.grad = gradient.tensor

    def changed_weight(self) -> nn.Parameter | None:
        """Return a weight that has been written since."""
        pairs = zip(self._gradients, self._versions, strict=True)
        return next((gradient.weight for gradient, version in pairs if gradient.weight._version != version), None)


def _numpy_random() -> Any:
    """Return NumPy's module of random numbers, None where nobody has imported it."""
    return sys.modules.get("numpy.random")


def _is_kept(tensor: Tensor) -> bool:
    """Whether a tensor has values yet, and can be written."""
    return not (is_lazy(tensor) or tensor.is_inference())


class ProgramState:
    """Puts back what was there before, for a second run, and at the end what the first has left."""

    def __init__(self, model: nn.Module | None) -> None:
        self._model = model

    def __enter__(self) -> "ProgramState":
        self._before = _Snapshot(self._model)
        self._after: _Snapshot | None = None
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
        self._after = _Snapshot(self._model)
        self._before.put_back()

    def __exit__(self, *_: object) -> None:
        if self._after is not None:
            self._after.put_back()
