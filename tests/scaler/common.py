"""Helpers for the tests of the scaler: optimizers of three kinds, calls that check gradients, and iterations."""

from collections.abc import Callable
from typing import Any

import polycast
import torch
from polycast import syncfree
from torch import Tensor

from tests.support.optimizers import set_grads

INF, NAN = float("inf"), float("nan")
SCALE = 256.0
SHAPES = ((3,), (2, 2))
Look = Callable[[Any, Any], Any]

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sync-free": lambda params: syncfree.AdamW(params, lr=0.01, eps=1e-2),
    "fused": lambda params: torch.optim.AdamW(params, lr=0.01, eps=1e-2, fused=True),
    "for-loop": lambda params: torch.optim.AdamW(params, lr=0.01, eps=1e-2, foreach=False, fused=False),
}
# These calls of the scaler check the gradients before the step. "step" makes no call.
LOOKS: dict[str, Look] = {
    "step": lambda scaler, optimizer: None,  # noqa: ARG005
    "unscale_": lambda scaler, optimizer: scaler.unscale_(optimizer),
    "clip_grad_norm": lambda scaler, optimizer: scaler.clip_grad_norm(optimizer, 1.0),
}


def started(scaler: Any = None, **options: Any) -> Any:
    """Scale a loss with a scaler, polycast's by default, and return the scaler."""
    scaler = scaler or polycast.GradScaler(**{"init_scale": SCALE} | options)
    scaler.scale(torch.ones(1))
    return scaler


def give(params: list[Tensor], seed: int, bad: float | None = None, scale: float = SCALE) -> None:
    """Set scaled gradients, and optionally set one element of the last gradient to a non-finite value."""
    set_grads(params, seed, scale)
    if bad is not None:
        assert params[-1].grad is not None
        params[-1].grad.view(-1)[-1] = bad


class Wrapper(torch.optim.Optimizer):
    """A wrapper of an optimizer, as trainers have, with an optional scaler that steps the optimizer."""

    def __init__(self, optimizer: Any, scaler: Any = None) -> None:
        self.optimizer, self.scaler = optimizer, scaler

    @property
    def param_groups(self) -> Any:  # type: ignore[override]
        return self.optimizer.param_groups

    def step(self, closure: Any = None) -> Any:
        return self.scaler.step(self.optimizer, closure) if self.scaler else self.optimizer.step(closure)


class Loop:
    """A scaler and an optimizer of one parameter. The caller passes the gradient of each iteration."""

    def __init__(self, scaler: Any, library: Any = syncfree, lr: float = 0.0) -> None:
        self.param = torch.ones((), requires_grad=True)
        self.optimizer: torch.optim.Optimizer = library.SGD([self.param], lr=lr)
        self.scaler = started(scaler)

    def iterate(self, grad: float) -> float:
        self.param.grad = torch.tensor(grad)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return float(self.scaler.get_scale())
