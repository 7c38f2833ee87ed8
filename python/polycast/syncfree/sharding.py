"""DTensors: the shard of this process, and the placement of gradients on a mesh."""

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from polycast.syncfree.tensor_lists import Group, name_of


def is_sharded(tensor: Any) -> bool:
    """Return whether it is a DTensor. Until their package is imported there is none."""
    package: Any = sys.modules.get("torch.distributed.tensor")
    return package is not None and isinstance(tensor, package.DTensor)


def local_of(tensor: Any) -> Tensor:
    """Return the shard of a DTensor, or any other tensor, once a collective that computes it is done."""
    local: Any = tensor._local_tensor if is_sharded(tensor) else tensor
    if type(local) is not Tensor and hasattr(local, "trigger_wait"):
        local = local.trigger_wait()
    result: Tensor = local
    return result


def shards_of(lists: Sequence[Sequence[Tensor]]) -> list[list[Tensor]] | None:
    """Return lists with shards in place of DTensors, or None if a gradient or a state is placed unlike its parameter.

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
    """Place a gradient as its parameter is, in ``.grad``.

    Returns:
        The mesh of the parameter and the dimensions that split it into parts: None and () if it is not a DTensor.

    Raises:
        ValueError: Only one of the two is a DTensor, they are on different meshes, or the parameter is a pending sum.
    """
    grad = param.grad
    if not is_sharded(param):
        if is_sharded(grad):
            name = name_of(param_groups, param)
            raise ValueError(f"the gradient of {name} is a DTensor and the parameter is not; give it a plain tensor")
        return None, ()
    mesh, placements = param.device_mesh, param.placements
    if any(placement.is_partial() for placement in placements):
        raise ValueError(
            f"{name_of(param_groups, param)} is placed as {placements}, a sum that is still to be made; "
            "redistribute it to Replicate() or Shard(dim) before the optimizer gets it"
        )
    if not is_sharded(grad) or grad.device_mesh != mesh:
        found = f"placed as {grad.placements} on {grad.device_mesh}" if is_sharded(grad) else "not a DTensor"
        raise ValueError(
            f"the gradient of {name_of(param_groups, param)} is {found} and the parameter is placed as "
            f"{placements} on {mesh}; give it a DTensor on the same mesh"
        )
    if grad.placements != placements:
        with torch.no_grad():
            param.grad = grad.redistribute(mesh, placements)
    return mesh, tuple(dim for dim, placement in enumerate(placements) if not placement.is_replicate())
