"""The placement of an optimizer's state on a mesh."""

from typing import Any

from torch import Tensor

from polycast._compiled import is_sharded


def placed_like(value: Tensor, param: Tensor) -> Tensor:
    """Return state placed as its parameter is, if both are DTensors; a checkpoint may come from another layout."""
    if not is_sharded(value) or not is_sharded(param):
        return value
    left: Any = value
    right: Any = param
    same = left.device_mesh == right.device_mesh and left.placements == right.placements
    if same or any(placement.is_partial() for placement in right.placements):  # which is refused elsewhere
        return value
    placed: Tensor = left.redistribute(right.device_mesh, right.placements)
    return placed
