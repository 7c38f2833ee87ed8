"""Clipping the norm of gradients: torch's arithmetic, in the step or in place."""

import torch
from torch import Tensor

from polycast.scaler.findings import Agreed, measured, total_norm
from polycast.scaler.sharding import shards_of
from polycast.syncfree.batches import Gradients, Group, on_gradients
from polycast.syncfree.gather import collect, gather_gradients


def clip_coef(norm: Tensor, max_norm: float) -> Tensor:
    """Return the factor of gradients of that norm, as ``torch.nn.utils.clip_grad_norm_`` computes it."""
    # Torch's ``max_norm / tensor`` takes the reciprocal, too: the same bits, without a detour through Python.
    return ((norm + 1e-6).reciprocal() * max_norm).clamp_max(1.0)


def clip_in_place(optimizer: torch.optim.Optimizer, max_norm: float, norm_type: float) -> Tensor:
    """Do what ``torch.nn.utils.clip_grad_norm_`` does, with sharded and sparse gradients, too.

    Torch's own adds up no shards of several meshes, and torch_xla replaces it by one that loses a NaN.
    """
    groups = optimizer.param_groups
    gathered = gather_gradients(groups, collect(groups), coalesce_in_place=True)
    findings, shards = measured(groups, gathered, norm_type), shards_of(groups)
    agreed = shards.agreed(findings, with_norms=True) if shards else Agreed.alone(findings)
    norm = total_norm(agreed.norms, norm_type, next(iter(agreed.found_infs), torch.device("cpu")))
    coef = clip_coef(norm, max_norm)
    for gradients in gathered:
        multiply(gradients, coef, groups)
    return norm


def multiply(gradients: Gradients, factor: Tensor, param_groups: list[Group]) -> tuple[Tensor, Tensor]:
    """Multiply gradients in place by one element; return whether any was not finite, and which."""
    found_inf = torch.zeros((), dtype=torch.float32, device=gradients.device)
    factor = factor.to(gradients.device, non_blocking=True)
    return found_inf, on_gradients(torch.ops.polycast.unscale_.default, gradients, param_groups, found_inf, factor)
