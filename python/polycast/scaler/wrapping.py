"""Optimizers that a scaler must look into: those inside of wrappers, and those of FSDP1."""

from typing import Any

import torch

Optimizer = torch.optim.Optimizer


def unwrapped(optimizer: Any) -> Any:
    """Return the optimizer inside of a wrapper: its attribute ``optimizer``, with the very same parameter groups.

    Trainers wrap optimizers and step one of the two. A scaler has one record for both.
    """
    inner = getattr(optimizer, "optimizer", None)
    while isinstance(inner, Optimizer) and inner.param_groups is getattr(optimizer, "param_groups", None):
        optimizer, inner = inner, getattr(inner, "optimizer", None)
    return optimizer


def has_lone_shards(optimizer: Optimizer) -> bool:
    """Return whether parameters are sharded over several ranks and are no DTensors, as FSDP1's."""
    params = (param for group in optimizer.param_groups for param in group["params"])
    distributed: Any = torch.distributed
    return any(getattr(param, "_fsdp_flattened", False) for param in params) and distributed.get_world_size() > 1
