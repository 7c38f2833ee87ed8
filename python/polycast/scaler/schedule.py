"""Learning rate schedules that do not advance in skipped steps, without a device sync."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

from polycast import devices
from polycast.scaler.grad_scaler import GradScaler
from polycast.scaler.optimizer_state import unwrapped
from polycast.syncfree.step import SyncFreeOptimizer
from polycast.syncfree.tensor_lists import moved


class SkipAwareLR(LRScheduler):
    """A scheduler like ``torch.optim.lr_scheduler.LambdaLR`` that does not advance in skipped steps, without a sync.

    Args:
        optimizer: An optimizer that accepts a tensor as the ``lr`` of a group, such as any of ``polycast.syncfree``.
        lr_lambda: A function whose argument is the number of steps that were not skipped, a 0-d floating-point tensor
            on the device. It returns the factor of the initial learning rate, computed with tensor operations. A list
            has one function for each parameter group.
        scaler: The scaler that steps the optimizer.

    Raises:
        ValueError: If the number of functions is not the number of parameter groups.

    Example:
        >>> import torch, polycast
        >>> optimizer = polycast.syncfree.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = polycast.SkipAwareLR(optimizer, lambda steps: 0.5**steps, polycast.GradScaler())
    """

    def __init__(self, optimizer: Any, lr_lambda: Callable[[Tensor], Any] | Sequence[Any], scaler: GradScaler) -> None:
        self.optimizer, self._scaler, groups = optimizer, scaler, optimizer.param_groups
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, Sequence) else [lr_lambda] * len(groups)
        if len(self.lr_lambdas) != len(groups):
            remedy = "pass one function for each parameter group"
            raise ValueError(f"Expected {len(groups)} lr_lambdas, but got {len(self.lr_lambdas)}; {remedy}")
        for group in groups:
            group["lr"] = float(group["lr"])  # groups may share a tensor
        self.base_lrs = [float(group.setdefault("initial_lr", group["lr"])) for group in groups]
        params = [param for group in groups for param in group["params"]]
        # This is a vector, because `torch_xla` compiles again for some values of 0-d tensors.
        self._count = torch.zeros(1, dtype=torch.int64, device=params[0].device if params else None)
        self.load_state_dict({"steps_taken": 0, "base_lrs": self.base_lrs})

    def step(self) -> None:  # type: ignore[override]  # the CPU does not know the epoch
        """Advance the learning rates, unless the optimizer skipped its last step. Call this method after each step."""
        skipped = self._scaler.step_was_skipped(self.optimizer)
        self.last_epoch, self._step_count = self.last_epoch + 1, self._step_count + 1
        self._count = moved(self._count, skipped.device).add_(skipped.logical_not())  # CUDA graphs need the same tensor
        self._set_lr()

    def get_last_lr(self) -> list[float]:
        """Return the learning rate of each group, with a sync."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return the number of steps that were not skipped, and the initial learning rates, with a sync."""
        return {"steps_taken": int(self._count.item()), "base_lrs": self.base_lrs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that ``state_dict`` returned, with the functions of this scheduler."""
        self.base_lrs, self.last_epoch = list(state_dict["base_lrs"]), state_dict["steps_taken"]
        self._step_count = self.last_epoch + 1
        self._count.fill_(self.last_epoch)
        self._set_lr()

    def _set_lr(self) -> None:
        ours = isinstance(unwrapped(self.optimizer), SyncFreeOptimizer)
        # PyTorch's fused kernels on cuda accept a learning rate in float32 only.
        has_float64 = devices.facts_of(self._count.device.type).has_float64
        steps = self._count.squeeze().to(torch.float64 if ours and has_float64 else torch.float32)
        for group, base_lr, function in zip(self.optimizer.param_groups, self.base_lrs, self.lr_lambdas, strict=False):
            new = torch.full_like(steps, base_lr) * function(steps)
            is_same = isinstance(lr := group["lr"], Tensor) and (lr.device, lr.dtype) == (new.device, new.dtype)
            group["lr"] = lr.zero_().add_(new) if is_same else new  # compiled steps and graphs need the same tensor
