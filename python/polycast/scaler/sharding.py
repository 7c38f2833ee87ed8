"""Reductions over the ranks of a mesh: what each finds in its shards of the gradients, brought together.

All ranks of a mesh make the same calls in the same order, whatever their shards hold, and nothing is read back.
"""

from typing import Any, TypeAlias

import torch
from torch import Tensor

from polycast._compiled import DeviceGradients, norm

#: Gradients, whether any of them is not finite (found_inf), and which of them (non_finite).
Finding: TypeAlias = tuple[DeviceGradients, Tensor, Tensor]


def agreed(findings: list[Finding]) -> list[Finding]:
    """Return findings that every rank of the meshes agrees on: what one rank has found, all have."""
    device = findings[0][0].device
    found_inf = torch.stack([found.to(device, non_blocking=True) for _, found, _ in findings]).max()
    flags = []
    for gradients, _, non_finite in findings:
        if gradients.mesh is None:
            flags.append(non_finite)
            continue
        # One reduction for both. What a rank of one mesh has found reaches those of the next.
        found_inf = found_inf.to(gradients.device, non_blocking=True)
        both = torch.cat([non_finite, found_inf.reshape(1)])
        for dim in range(gradients.mesh.ndim):
            _reduce(both, gradients.mesh, dim, "MAX")
        flags.append(both.narrow(0, 0, len(non_finite)))
        found_inf = both.max()
    return [
        (gradients, found_inf.to(gradients.device, non_blocking=True), non_finite)
        for (gradients, _, _), non_finite in zip(findings, flags, strict=True)
    ]


def total_norm(gathered: list[DeviceGradients], norms: list[Tensor], norm_type: float, device: torch.device) -> Tensor:
    """Return the norm of all gradients from the norms that this rank's parts have: a plain tensor on the device."""
    wholes = [
        _norm_of_shards(gradients, part, norm_type).to(device, non_blocking=True)
        for gradients, part in zip(gathered, norms, strict=True)
    ]
    if not wholes:
        return torch.zeros((), device=device)
    return wholes[0] if len(wholes) == 1 else torch.linalg.vector_norm(torch.stack(wholes), norm_type)


def _norm_of_shards(gradients: DeviceGradients, part: Tensor, norm_type: float) -> Tensor:
    """Return the norm of what is split over ranks; what is replicated counts once."""
    mesh = gradients.mesh
    for dim in gradients.split_dims:
        if mesh.size(dim) > 1 and mesh.get_coordinate() is not None:
            # The parts themselves: a sum of their powers might overflow.
            is_own = torch.arange(mesh.size(dim), device=part.device) == mesh.get_local_rank(dim)
            parts = torch.where(is_own, part, 0)
            _reduce(parts, mesh, dim, "SUM")
            part, _, _ = norm([parts], norm_type)
    return part


def _reduce(tensor: Tensor, mesh: Any, dim: int, operation: str) -> None:
    """Reduce in place over one dimension of a mesh, if this rank is in it."""
    if mesh.size(dim) > 1 and mesh.get_coordinate() is not None:
        distributed: Any = torch.distributed
        distributed.all_reduce(tensor, getattr(distributed.ReduceOp, operation), group=mesh.get_group(dim))
