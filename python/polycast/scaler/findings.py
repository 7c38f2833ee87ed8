"""What checks of gradients find: whether they are finite, and their norms."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from polycast.syncfree.batches import Gradients, Group, on_gradients

#: On each device whether a gradient there is not finite, as 0 or 1.
FoundInf: TypeAlias = dict[torch.device, Tensor]


class Ranks(NamedTuple):
    """The ranks of a mesh, and the device of this rank's shards."""

    mesh: Any
    device: torch.device


class Place(NamedTuple):
    """The mesh of some shards, and the dimensions of it along which they are different parts."""

    ranks: Ranks
    split_dims: tuple[int, ...]


class Finding(NamedTuple):
    """The result of a check of gradients, which are all on one device and, if sharded, on one mesh."""

    device: torch.device
    params: Sequence[Tensor]  # that have the gradients
    found_inf: Tensor  # whether any is not finite, as 0 or 1
    non_finite: Tensor  # which of them are not
    norm: Tensor | None = None  # if asked for
    place: Place | None = None  # of shards

    @classmethod
    def of(cls, gradients: Gradients, found_inf: Tensor, non_finite: Tensor, norm: Tensor | None = None) -> "Finding":
        """Return a finding that does not keep the gradients alive."""
        device, mesh = gradients.device, gradients.mesh
        place = None if mesh is None else Place(Ranks(mesh, device), gradients.split_dims)
        return cls(device, gradients.params, found_inf, non_finite, norm, place)


class Agreed(NamedTuple):
    """What all ranks know of the gradients of an optimizer."""

    found_infs: FoundInf
    norms: list[Tensor]  # if asked for: of gradients that are not sharded, and for each place a vector of all parts

    @classmethod
    def alone(cls, findings: list[Finding]) -> "Agreed":
        """Return the findings of one rank, which has nobody to agree with."""
        found_infs = {each.device: each.found_inf for each in findings}
        return cls(found_infs, [each.norm for each in findings if each.norm is not None])


def measured(param_groups: list[Group], gathered: list[Gradients], norm_type: float) -> list[Finding]:
    """Check gradients and compute their norms, in one pass that writes nothing."""
    findings = []
    for gradients in gathered:
        operator = torch.ops.polycast.norm.default
        # Only the 2-norm of complex elements is that of their halves.
        if norm_type != 2 and any(param.is_complex() for param in gradients.params):
            pairs = zip(gradients.params, gradients.grads, strict=True)
            grads = [torch.view_as_complex(grad).abs() if param.is_complex() else grad for param, grad in pairs]
            gradients = replace(gradients, grads=grads)
        norm, found_inf, non_finite = on_gradients(operator, gradients, param_groups, norm_type)
        findings.append(Finding.of(gradients, found_inf, non_finite, norm))
    return findings


def total_norm(norms: list[Tensor], norm_type: float, device: torch.device) -> Tensor:
    """Return the norm of all gradients from norms that the ranks agree on: one element on the device."""
    norms = [norm.to(device, non_blocking=True) for norm in norms]
    if not norms:
        return torch.zeros((), device=device)
    # A sum of powers of the parts might overflow; the operator avoids that.
    return norms[0] if len(norms) == 1 and norms[0].dim() == 0 else torch.ops.polycast.norm(norms, norm_type)[0]
