"""The gradient scaler that does nothing."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from polycast._clipping import check_clipping, clip_in_place
from polycast.grad_scaler import GradScaler, Optimizer


class DisabledGradScaler(GradScaler):
    """What ``GradScaler(enabled=False)`` gives: it scales nothing, and steps."""

    def unscale(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors."""
        return list(tensors)

    def clip_grad_norm(self, optimizer: Optimizer, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip the gradients in place, as ``torch.nn.utils.clip_grad_norm_`` does."""
        check_clipping(max_norm, norm_type)
        return clip_in_place(optimizer, max_norm, norm_type)

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Step the optimizer."""
        result = cast("float | None", optimizer.step(*args, **kwargs))
        self._record(optimizer).steps += 1
        return result

    def step_together(self, *optimizers: Optimizer) -> None:
        """Step the optimizers."""
        for optimizer in optimizers:
            self.step(optimizer)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Do nothing."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Do nothing."""

    def skipped(self, optimizer: Optimizer) -> Tensor:  # noqa: ARG002
        """Return False: every step was a real one."""
        return torch.zeros((), dtype=torch.bool)

    def skip_count(self, optimizer: Optimizer) -> Tensor:  # noqa: ARG002
        """Return 0."""
        return torch.zeros((), dtype=torch.int64)

    def non_finite(self, optimizer: Optimizer) -> list[str]:  # noqa: ARG002
        """Return nothing: no gradient was looked at."""
        return []
