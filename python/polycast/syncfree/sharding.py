"""DTensors: the shard of this process, and how gradients and state are placed on a mesh."""

import sys
from typing import Any

import torch
from torch import Tensor

from polycast.syncfree.batches import Group, name_of


def is_sharded(tensor: Any) -> bool:
    """Return whether it is a DTensor. Where nobody has imported their package there is none."""
    package: Any = sys.modules.get("torch.distributed.tensor")
    return package is not None and isinstance(tensor, package.DTensor)


def local_of(tensor: Any) -> Tensor:
    """Return the shard of a DTensor, or any other tensor, once a collective that computes it is done."""
    local: Any = tensor._local_tensor if is_sharded(tensor) else tensor
    if type(local) is not Tensor and hasattr(local, "trigger_wait"):
        local = local.trigger_wait()
    result: Tensor = local
    return result


def shards_of(lists: list[list[Tensor]]) -> list[list[Tensor]] | None:
    """Return the shards of parameters, their gradients and their state, if all of them are placed alike.

    Most sharded models are so. None means that the tensors have to be looked at one by one.

    Args:
        lists: Parameters, gradients, and what belongs to the state. The counters in the state are plain tensors.
    """
    first: Any = lists[0][0]
    if not is_sharded(first) or any(placement.is_partial() for placement in first.placements):
        return None
    kind, place = type(first), (first.device_mesh, first.placements)
    result = []
    for number, tensors in enumerate(lists):
        shards: list[Tensor] = []
        tensor: Any
        for tensor in tensors:
            if type(tensor) is kind:
                if (tensor._spec.mesh, tensor._spec.placements) != place:
                    return None
                shards.append(tensor._local_tensor)
            elif number < 2:
                return None
            else:
                shards.append(tensor)
        result.append(shards)
    return result


def place_of(param: Any, param_groups: list[Group]) -> tuple[Any, tuple[int, ...]]:
    """Return the mesh that a parameter lies on, None for no DTensor, and the dimensions that split it into parts.

    Raises:
        ValueError: It is a pending sum, which no step can update.
    """
    if not is_sharded(param):
        return None, ()
    if any(placement.is_partial() for placement in param.placements):
        raise ValueError(
            f"{name_of(param_groups, param)} is placed as {param.placements}, a sum that is still to be made; "
            "redistribute it to Replicate() or Shard(dim) before the optimizer gets it"
        )
    splits = enumerate(param.placements)
    return param.device_mesh, tuple(dim for dim, placement in splits if not placement.is_replicate())


def align_grad(param: Any, param_groups: list[Group]) -> None:
    """Bring the gradient of a DTensor to the parameter's placements, in ``.grad``.

    Raises:
        ValueError: The gradient is no DTensor, or lies on another mesh.
    """
    grad = param.grad
    same_mesh = is_sharded(grad) and grad.device_mesh == param.device_mesh
    if not same_mesh:
        found = f"placed as {grad.placements} on {grad.device_mesh}" if is_sharded(grad) else "no DTensor"
        raise ValueError(
            f"the gradient of {name_of(param_groups, param)} is {found} and the parameter is placed as "
            f"{param.placements} on {param.device_mesh}; give it a DTensor on the same mesh"
        )
    if grad.placements != param.placements:
        with torch.no_grad():
            param.grad = grad.redistribute(param.device_mesh, param.placements)


def placed_like(value: Any, param: Any) -> Tensor:
    """Return state placed as its parameter is, if both are DTensors; a checkpoint may come from another layout."""
    placed: Tensor = value
    if not is_sharded(value) or not is_sharded(param):
        return placed
    same = value.device_mesh == param.device_mesh and value.placements == param.placements
    if same or any(placement.is_partial() for placement in param.placements):  # which a step refuses
        return placed
    return value.redistribute(param.device_mesh, param.placements)  # type: ignore[no-any-return]


def sharded_like(local: Tensor, param: Any) -> Tensor:
    """Return the state of a parameter from this process's part of it: a DTensor if the parameter is one."""
    if not is_sharded(param):
        return local
    whole: Tensor = type(param.detach()).from_local(
        local, param.device_mesh, param.placements, run_check=False, shape=param.shape, stride=param.stride()
    )
    return whole
