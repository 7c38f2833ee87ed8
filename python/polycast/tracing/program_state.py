"""What a program changes: random state, and a model's buffers and gradients."""

import torch
from torch import Tensor, nn


class ProgramState:
    """Puts back what was there before, and at the end what the first run has left."""

    def __init__(self, model: nn.Module | None) -> None:
        self._buffers = list(model.buffers()) if model is not None else []
        self._weights = list(model.parameters()) if model is not None else []

    def __enter__(self) -> "ProgramState":
        self._random = _random_state()
        self._before = self._copy()
        self._after: tuple[list[Tensor], list[Tensor | None]] | None = None
        return self

    def put_back(self) -> None:
        """Put back what was there at the start, and remember what is there now."""
        self._after = [buffer.clone() for buffer in self._buffers], [weight.grad for weight in self._weights]
        self._put(*self._before)
        _set_random_state(self._random)

    def __exit__(self, *_: object) -> None:
        if self._after is not None:
            self._put(*self._after)

    def _copy(self) -> tuple[list[Tensor], list[Tensor | None]]:
        gradients = [None if weight.grad is None else weight.grad.clone() for weight in self._weights]
        return [buffer.clone() for buffer in self._buffers], gradients

    @torch.no_grad()
    def _put(self, buffers: list[Tensor], gradients: list[Tensor | None]) -> None:
        for buffer, value in zip(self._buffers, buffers, strict=True):
            buffer.copy_(value)
        for weight, gradient in zip(self._weights, gradients, strict=True):
            weight.grad = gradient


def _random_state() -> list[Tensor]:
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return [torch.get_rng_state(), *([] if device is None else torch.get_device_module(device).get_rng_state_all())]


def _set_random_state(state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.get_device_module().set_rng_state_all(state[1:])
