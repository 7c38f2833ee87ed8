"""DTensors: the shard of this process, and the placement of gradients on a mesh."""

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from polycast.syncfree.tensor_lists import Group, name_of


def is_sharded(tensor: Any) -> bool:
    """Return whether a tensor is a DTensor. Before the package of DTensors is imported there are none."""
    package: Any = sys.modules.get("torch.distributed.tensor")
    return package is not None and isinstance(tensor, package.DTensor)


def local_of(tensor: Any) -> Tensor:
    """Return the shard of a DTensor, or a plain tensor itself, after the collective that computes it has ended."""
    local: Any = tensor._local_tensor if is_sharded(tensor) else tensor
    if type(local) is not Tensor and hasattr(local, "trigger_wait"):
        local = local.trigger_wait()
    result: Tensor = local
    return result


def shards_of(lists: Sequence[Sequence[Tensor]]) -> list[list[Tensor]] | None:
    """Return lists with shards instead of DTensors, or None if a placement differs from its parameter's.

    Args:
        lists: Parameters, their gradients, and their state. A list may be empty, and its tensors may be plain.
    """
    places = [_place_of(param) for param in lists[0]]
    if any(placement.is_partial() for place in places if place for placement in place[1]):
        return None
    shards = []
    for tensors in lists:
        for tensor, place in zip(tensors, places, strict=False):
            if is_sharded(tensor) and _place_of(tensor) != place:
                return None
        shards.append([local_of(tensor) for tensor in tensors])
    return shards


def _place_of(tensor: Any) -> tuple[Any, Any] | None:
    return (tensor.device_mesh, tensor.placements) if is_sharded(tensor) else None


def align_grad(param: Any, param_groups: list[Group]) -> tuple[Any, tuple[int, ...]]:
    """Redistribute ``.grad`` to the placement of its parameter.

    Returns:
        The mesh of the parameter and the dimensions that split it into parts: None and () if it is not a DTensor.

    Raises:
        ValueError: If only one of the two is a DTensor, if their meshes differ, or if the parameter is a pending sum.
    """
    grad = param.grad
    if not is_sharded(param):
        if is_sharded(grad):
            name = name_of(param_groups, param)
            raise ValueError(f"{name}.grad: expected a plain tensor, like the parameter, got a DTensor")
        return None, ()
    mesh, placements = param.device_mesh, param.placements
    if any(placement.is_partial() for placement in placements):
        raise ValueError(
            f"{name_of(param_groups, param)}: expected the placement Replicate() or Shard(dim), got {placements}, a "
            "pending sum; redistribute the parameter before you construct the optimizer"
        )
    if not is_sharded(grad) or grad.device_mesh != mesh:
        found = f"placed as {grad.placements} on {grad.device_mesh}" if is_sharded(grad) else "not a DTensor"
        raise ValueError(
            f"{name_of(param_groups, param)}.grad: expected a DTensor on {mesh}, like the parameter with {placements}, "
            f"got one that is {found}"
        )
    if grad.placements != placements:
        with torch.no_grad():
            param.grad = grad.redistribute(mesh, placements)
    return mesh, tuple(dim for dim, placement in enumerate(placements) if not placement.is_replicate())
