"""Reductions over the ranks of a mesh: what each finds in its shards of the gradients, brought together.

All ranks of a mesh make the same calls in the same order, whatever their shards hold, and nothing is read back.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polycast._compiled import DeviceGradients, norm


class Finding(NamedTuple):
    """What a look at gradients of one device, and of one mesh if they are sharded, has found."""

    gradients: DeviceGradients
    found_inf: Tensor  # whether any is not finite, as 0 or 1
    non_finite: Tensor  # which of them are not
    norms: Tensor | None = None  # if asked for, of this rank's part; once all ranks agree a vector, of all their parts


def measured(gathered: list[DeviceGradients], norm_type: float) -> list[Finding]:
    """Look for infinities and NaNs, and compute norms, in one pass that writes nothing."""
    findings = []
    for gradients in gathered:
        part, found_inf, non_finite = gradients.norm(norm_type)
        findings.append(Finding(gradients, found_inf, non_finite, part))
    return findings


def agreed(findings: list[Finding]) -> list[Finding]:
    """Return findings that every rank of the meshes agrees on: what one rank has found, all have.

    It is one small sum for each mesh and dimension of it, of the norms, too.
    """
    if all(finding.gradients.mesh is None for finding in findings):
        return findings
    device = findings[0].gradients.device
    found_inf = torch.stack([finding.found_inf.to(device, non_blocking=True) for finding in findings]).max()
    results = findings.copy()
    for numbers in _meshes(findings):
        # What a rank of one mesh has found reaches those of the next.
        found_inf, some = _summed(found_inf, [findings[number] for number in numbers])
        for number, finding in zip(numbers, some, strict=True):
            results[number] = finding
    return [
        finding._replace(found_inf=found_inf.to(finding.gradients.device, non_blocking=True)) for finding in results
    ]


def total_norm(findings: list[Finding], norm_type: float, device: torch.device) -> Tensor:
    """Return the norm of all gradients from what ranks agree on: a plain tensor of one element on the device."""
    norms = [finding.norms.to(device, non_blocking=True) for finding in findings if finding.norms is not None]
    if not norms:
        return torch.zeros((), device=device)
    # The parts themselves: a sum of their powers might overflow.
    return norms[0] if len(norms) == 1 and norms[0].dim() == 0 else norm(norms, norm_type)[0]


def _meshes(findings: list[Finding]) -> Iterator[list[int]]:
    """Yield the places of the findings on each mesh."""
    left = [number for number, finding in enumerate(findings) if finding.gradients.mesh is not None]
    while left:
        first = findings[left[0]].gradients
        same = [
            number
            for number in left
            if findings[number].gradients.mesh == first.mesh and findings[number].gradients.device == first.device
        ]
        yield same
        left = [number for number in left if number not in same]


def _summed(found_inf: Tensor, findings: list[Finding]) -> tuple[Tensor, list[Finding]]:
    """Sum over all ranks of the mesh on which the findings are; return whether any is not finite, and the findings."""
    gradients = findings[0].gradients
    flags = [found_inf.to(gradients.device, non_blocking=True).reshape(1), *(each.non_finite for each in findings)]
    norms = [_among_all(each.gradients, each.norms) for each in findings if each.norms is not None]
    both = torch.cat([*flags, *norms])
    _sum(both, gradients.mesh)
    found, *parts = torch.split(both, [len(tensor) for tensor in (*flags, *norms)])
    sums = iter(parts)
    marked = [each._replace(non_finite=next(sums).clamp(max=1)) for each in findings]
    whole = [each if each.norms is None else each._replace(norms=next(sums)) for each in marked]
    return found.reshape(()).clamp(max=1).float(), whole


def _among_all(gradients: DeviceGradients, part: Tensor) -> Tensor:
    """Return a vector of a norm for each part, of which this rank knows its own; what is replicated counts once."""
    mesh = gradients.mesh
    place = mesh.get_coordinate()
    if place is None:
        return part.reshape(1)
    count = math.prod(mesh.size(dim) for dim in gradients.split_dims)
    if any(place[dim] for dim in range(mesh.ndim) if dim not in gradients.split_dims):
        return part.new_zeros(count)
    own = 0
    for dim in gradients.split_dims:
        own = own * mesh.size(dim) + place[dim]
    return torch.nn.functional.pad(part.reshape(1), (own, count - own - 1))


def _sum(tensor: Tensor, mesh: Any) -> None:
    """Sum in place over all dimensions of a mesh, if this rank is in it."""
    distributed: Any = torch.distributed
    for dim in range(mesh.ndim):
        if mesh.size(dim) > 1 and mesh.get_coordinate() is not None:
            distributed.all_reduce(tensor, distributed.ReduceOp.SUM, group=mesh.get_group(dim))
