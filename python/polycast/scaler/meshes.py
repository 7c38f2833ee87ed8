"""Reductions over the ranks that step together: each rank checks its gradients, and all ranks agree.

The sizes and the order of the sums do not depend on the gradients. All ranks of a mesh therefore sum tensors of equal
sizes, even if some ranks lack gradients. Only a rank that has no gradients syncs.
"""

import sys
from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from polycast.syncfree.tensor_lists import Group, moved


class GradientCheck(NamedTuple):
    """The result of a check of gradients that have the same device, the same mesh or none, and equal ``split_dims``."""

    params: Sequence[Tensor]  # the parameters of the gradients
    mesh: Any  # the mesh of the parameters and their gradients; None unless both are DTensors
    split_dims: tuple[int, ...]  # the dimensions of the mesh that split the parameters
    found_inf: Tensor  # one element: 1 if any gradient is non-finite, otherwise 0
    non_finite: Tensor  # an element for each gradient: 1 if it is non-finite, otherwise 0
    norm: Tensor | None = None


@dataclass
class Shards:
    """The device, the norms' dtype and the split dimensions of an optimizer's parameters on one mesh."""

    device: torch.device  # the device of this rank's shards
    dtype: torch.dtype = torch.float32  # the dtype of the gradients' norms
    #: The different sets of mesh dimensions that split a parameter, in the order of the parameters.
    split_dims: dict[tuple[int, ...], None] = field(default_factory=dict)


#: The meshes whose ranks skip steps together. A process group is a mesh without shards.
Meshes: TypeAlias = dict[Any, Shards]
FoundInfs: TypeAlias = dict[Any, Tensor]  # by device: 1 if a check found a non-finite gradient, otherwise 0


def agree(
    checks: Sequence[GradientCheck], meshes: Meshes, device: torch.device, with_norms: bool
) -> tuple[FoundInfs, list[Tensor]]:
    """Return whether any rank has a non-finite gradient, and the norms of the gradients.

    There is one norm for each check without a mesh, and a vector of norms for each mesh. The ranks sum one tensor over
    each dimension of each mesh. The tensor has a flag for non-finite gradients, a flag for the existence of gradients
    and, with ``with_norms``, the norms of each rank. If no rank has a gradient, both results are empty.
    """
    wholes = (check.norm for check in checks if check.mesh is None)
    norms = [moved(norm, device) for norm in wholes if norm is not None]
    found = [moved(check.found_inf, device) for check in checks]
    nothing = torch.zeros(2, dtype=torch.float32)
    flags = torch.stack([torch.stack(found).max(), torch.ones_like(found[0])]) if found else nothing
    for mesh, shards in meshes.items():  # the sum of each mesh includes the flags of the meshes before it
        flags = moved(flags, shards.device)
        summed = torch.cat([flags, _norms_by_rank(checks, mesh, shards)]) if with_norms else flags
        _sum_over(summed, mesh)
        flags, parts = torch.split(summed, [2, len(summed) - 2])
        flags = flags.float().clamp(max=1)
        norms.append(moved(parts, device))
    if not checks and not flags[1].item():
        return {}, []
    return {flags.device: flags.select(0, 0)}, norms


def any_found(found_infs: Sequence[Tensor], device: torch.device) -> Tensor:
    """Return one element: 1 if any flag is 1, otherwise 0. PyTorch's fused optimizers skip only if the element is 1."""
    first, *others = found_infs or [torch.zeros((), device=device)]
    first = moved(first, device)
    return torch.stack([first, *(moved(each, device) for each in others)]).max() if others else first


def found_by_all(found_infs: Sequence[Tensor], all_meshes: Sequence[Meshes], device: torch.device) -> Tensor:
    """Return whether a flag of several optimizers is 1 on any rank. If the optimizers' meshes differ, sum once more.

    A rank whose optimizers have no gradients participates as well, so all ranks must step the same optimizers.
    """
    found_inf = any_found(found_infs, device)
    meshes = dict(ChainMap(*all_meshes)) if any(all_meshes) else {}
    if min(map(len, all_meshes), default=0) < len(meshes):
        for mesh, shards in meshes.items():
            found_inf = found_inf.to(shards.device, copy=True)
            _sum_over(found_inf, mesh)
        found_inf = moved(found_inf.clamp(max=1), device)
    return found_inf


def meshes_of(param_groups: list[Group]) -> Meshes:
    """Return the meshes of an optimizer's sharded parameters, with or without gradients."""
    package: Any = sys.modules.get("torch.distributed.tensor")
    meshes, last = dict[Any, Shards](), None
    for group in param_groups if package is not None else ():
        for param in group["params"]:
            if not isinstance(param, package.DTensor):
                continue
            layout = param.device_mesh, param.placements
            if layout != last:  # most parameters have the layout of the previous parameter
                last, shards = layout, meshes.setdefault(param.device_mesh, Shards(param.device))
                splits = enumerate(param.placements)
                shards.split_dims[tuple(dim for dim, placement in splits if not placement.is_replicate())] = None
            if param.dtype in (torch.float64, torch.complex128):
                shards.dtype = torch.float64
    return meshes


def _sum_over(tensor: Tensor, mesh: Any) -> None:
    """Sum in place over a process group, or over all dimensions of a mesh if this rank is in the mesh."""
    distributed: Any = torch.distributed
    groups = [mesh]
    if not isinstance(mesh, distributed.ProcessGroup):
        dims = range(mesh.ndim) if mesh.get_coordinate() is not None else ()
        groups = [mesh.get_group(dim) for dim in dims if mesh.size(dim) > 1]
    for group in groups:
        distributed.all_reduce(tensor, distributed.ReduceOp.SUM, group=group)


def _norms_by_rank(checks: Sequence[GradientCheck], mesh: Any, shards: Shards) -> Tensor:
    """Return a vector of this rank's norms: an element for each key of ``split_dims`` and rank. Replicas count once."""
    coordinate, place = mesh.get_coordinate() or (), 0
    for dim, at in enumerate(coordinate):
        place = place * mesh.size(dim) + at
    vectors = dict.fromkeys(shards.split_dims, torch.zeros(mesh.size(), dtype=shards.dtype, device=shards.device))
    for check in checks:
        is_replica = any(at for dim, at in enumerate(coordinate) if dim not in check.split_dims)
        if check.mesh == mesh and check.norm is not None and not is_replica:
            vectors[check.split_dims] = pad(check.norm.to(shards.dtype).reshape(1), (place, mesh.size() - place - 1))
    return torch.cat(list(vectors.values()))
