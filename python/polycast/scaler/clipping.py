"""Clipping the norm of gradients: torch's arithmetic, in the step or in place."""

import torch
from torch import Tensor

from polycast._compiled import DeviceGradients, gather_gradients
from polycast.scaler.sharding import measured, shards_of, total_norm


def check_clipping(max_norm: float, norm_type: float) -> tuple[float, float]:
    """Return both as numbers, or raise a ValueError where one is not positive."""
    for name, value, wanted in (
        ("max_norm", max_norm, "a positive number"),
        ("norm_type", norm_type, "a positive number, or infinity"),
    ):
        if not float(value) > 0:
            raise ValueError(f"{name} is {value}; it takes {wanted}")
    return float(max_norm), float(norm_type)


def clip_coef(norm: Tensor, max_norm: float) -> Tensor:
    """Return what gradients of that norm are multiplied by, as ``torch.nn.utils.clip_grad_norm_`` computes it."""
    # Torch divides by taking the reciprocal, too; said so, it is the same bits without a detour through Python.
    return ((norm + 1e-6).reciprocal() * max_norm).clamp_max(1.0)


def clip_in_place(optimizer: torch.optim.Optimizer, max_norm: float, norm_type: float) -> Tensor:
    """Do what ``torch.nn.utils.clip_grad_norm_`` does, of sharded and sparse gradients, too.

    Torch's own adds up no shards of several meshes, and torch_xla replaces it by one that loses a NaN.
    """
    gathered: list[DeviceGradients] = gather_gradients(optimizer.param_groups, coalesce_in_place=True)
    findings, shards = measured(gathered, norm_type), shards_of(optimizer.param_groups)
    if shards:
        findings = shards.agreed(findings, with_norms=True)
    norm = total_norm(findings, norm_type, findings[0].device if findings else torch.device("cpu"))
    multiply(gathered, clip_coef(norm, max_norm))
    return norm


def multiply(gathered: list[DeviceGradients], factor: Tensor) -> None:
    """Multiply gradients in place by one element."""
    for gradients in gathered:
        unused = torch.zeros((), dtype=torch.float32, device=gradients.device)
        gradients.unscale_(unused, factor.to(gradients.device, non_blocking=True))
