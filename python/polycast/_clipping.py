"""What clipping the norm of gradients is: torch's arithmetic, with checked arguments."""

from numbers import Real

import torch
from torch import Tensor

from polycast._sharding import clip_sharded


def check_clipping(max_norm: float, norm_type: float) -> None:
    """Raise a ValueError where one of them is no positive number, a TypeError where it is none at all."""
    for name, value, wanted in (
        ("max_norm", max_norm, "a positive number"),
        ("norm_type", norm_type, "a positive number, or infinity"),
    ):
        if not isinstance(value, (Real, Tensor)):
            raise TypeError(f"{name} is {value!r}; it takes {wanted}")
        if not float(value) > 0:
            raise ValueError(f"{name} is {value}; it takes {wanted}")


def clip_coef(norm: Tensor, max_norm: float) -> Tensor:
    """Return what gradients of that norm are multiplied by, as ``torch.nn.utils.clip_grad_norm_`` computes it."""
    # Torch divides by taking the reciprocal, too; said so, it is the same bits without a detour through Python.
    return ((norm + 1e-6).reciprocal() * max_norm).clamp_max(1.0).float()


def clip_in_place(optimizer: torch.optim.Optimizer, max_norm: float, norm_type: float) -> Tensor:
    """Do what ``torch.nn.utils.clip_grad_norm_`` does, which torch_xla replaces by one that loses a NaN."""
    sharded_norm = clip_sharded(optimizer, max_norm, norm_type)
    if sharded_norm is not None:
        return sharded_norm
    params = [param for group in optimizer.param_groups for param in group["params"] if param.grad is not None]
    norm = torch.nn.utils.get_total_norm([param.grad for param in params], norm_type)
    torch.nn.utils.clip_grads_with_norm_(params, max_norm, norm)
    return norm
