"""The shards of DTensors in this process, and the placement of gradients on a mesh."""

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def is_sharded(tensor: Any) -> bool:
    """Return whether a tensor is a DTensor. No DTensor exists before the import of ``torch.distributed.tensor``."""
    package: Any = sys.modules.get("torch.distributed.tensor")
    return package is not None and isinstance(tensor, package.DTensor)


def local_of(tensor: Any) -> Tensor:
    """Return the shard of a DTensor, or a plain tensor itself. Wait for the collective that computes the tensor."""
    local: Any = tensor._local_tensor if is_sharded(tensor) else tensor
    result: Tensor = local.trigger_wait() if hasattr(local, "trigger_wait") else local
    return result


def shards_of(lists: Sequence[Sequence[Tensor]]) -> list[list[Tensor]] | None:
    """Return lists with shards instead of DTensors, or None if a placement is partial or differs from its parameter's.

    Args:
        lists: Parameters, their gradients, and their state, which may be plain tensors. A list may be empty.
    """
    places = [_place_of(param) for param in lists[0]]
    if any(placement.is_partial() for place in places if place for placement in place[1]):
        return None
    for tensors in lists[1:]:
        for tensor, place in zip(tensors, places, strict=False):
            if (is_sharded(tensor) or tensors is lists[1]) and _place_of(tensor) != place:
                return None
    return [[local_of(tensor) for tensor in tensors] for tensors in lists]


def _place_of(tensor: Any) -> tuple[Any, Any] | None:
    return (tensor.device_mesh, tensor.placements) if is_sharded(tensor) else None


def align_grad(param: Any) -> tuple[Any, tuple[int, ...]]:
    """Redistribute a parameter's gradient to the placement of the parameter.

    Returns:
        The parameter's mesh and the mesh dimensions that split the parameter. None and () if the parameter or the
        gradient is not a DTensor. If only one of the two is a DTensor, the step of ``torch.optim`` raises.
    """
    if not (is_sharded(param) and is_sharded(param.grad)):
        return None, ()
    mesh, placements = param.device_mesh, param.placements
    if _place_of(param.grad) != (mesh, placements):
        with torch.no_grad():
            param.grad = param.grad.redistribute(mesh, placements)
    return mesh, tuple(dim for dim, placement in enumerate(placements) if not placement.is_replicate())
