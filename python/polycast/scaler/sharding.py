"""Reductions over the ranks of a mesh: each rank checks its shards of the gradients, and all get the same answer.

All ranks of a mesh make the same calls in the same order with tensors of the same sizes, whatever their shards hold and
whichever gradients they lack, because the parameters alone decide on both. Only a rank that has no gradient at all
syncs.
"""

import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polycast.scaler.findings import Agreed, Finding, Place, Ranks
from polycast.syncfree.batches import Group


def shards_of(param_groups: list[Group]) -> "Shards | None":
    """Return the sharded parameters of an optimizer, with or without gradients; None if there are none."""
    package: Any = sys.modules.get("torch.distributed.tensor")
    if package is None:
        return None
    places: dict[Place, None] = {}
    doubles: set[Ranks] = set()
    last, place = None, None
    for group in param_groups:
        for param in group["params"]:
            if not isinstance(param, package.DTensor):
                continue
            layout = param.device_mesh, param.device, param.placements
            if layout != last or place is None:  # most parameters have the layout of the one before
                last, place = layout, _place(*layout)
                places[place] = None
            if param.dtype in (torch.float64, torch.complex128):
                doubles.add(place.ranks)
    return Shards(tuple(places), doubles) if places else None


def _place(mesh: Any, device: torch.device, placements: Any) -> Place:
    return Place(
        Ranks(mesh, device), tuple(dim for dim, placement in enumerate(placements) if not placement.is_replicate())
    )


class Shards(NamedTuple):
    """The places of an optimizer's sharded parameters, and the ranks that have some of float64."""

    places: tuple[Place, ...]  # in the order of the parameters
    doubles: set[Ranks]

    @property
    def ranks(self) -> tuple[Ranks, ...]:
        """The ranks that must agree, in the order of the parameters."""
        return tuple({place.ranks: None for place in self.places})

    def agreed(self, findings: list[Finding], with_norms: bool) -> Agreed:
        """Return what all ranks found: what one rank has found, every rank of the meshes gets.

        It is one small sum for each mesh and dimension of it, of the norms, too. Without a gradient on any rank nothing
        is found on any device.
        """
        device = findings[0].device if findings else self.ranks[0].device
        found = [each.found_inf.to(device, non_blocking=True) for each in findings]
        # Two flags: something is not finite, and there is a gradient.
        head = torch.stack([torch.stack(found).max(), torch.ones_like(found[0])]) if found else torch.zeros(2)
        own = {each.place: each for each in findings if each.place is not None}
        norms = [each.norm for each in findings if each.place is None and each.norm is not None]
        for ranks in self.ranks:
            # The flags of one mesh go into the sum of the next.
            head, parts = self._summed(ranks, head.to(ranks.device, non_blocking=True), own, with_norms)
            norms += parts
        if not findings and not head[1].item():
            return Agreed({}, [])
        found_inf = head.select(0, 0)
        devices = [*(each.device for each in findings if each.place is None), *(ranks.device for ranks in self.ranks)]
        return Agreed({device: found_inf.to(device, non_blocking=True) for device in devices}, norms)

    def _summed(
        self, ranks: Ranks, head: Tensor, own: dict[Place, Finding], with_norms: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """Sum over the ranks of one mesh; return the two flags, and the norms of all parts for each place."""
        parts = [head]
        if with_norms:
            parts += [_among_all(own.get(place), place) for place in self.places if place.ranks == ranks]
        both = torch.cat(parts).to(torch.float64 if with_norms and ranks in self.doubles else torch.float32)
        sum_over(both, ranks)
        head, *norms = torch.split(both, [len(part) for part in parts])
        return head.clamp(max=1).float(), norms


def any_of(found_infs: Sequence[Tensor], device: torch.device) -> Tensor:
    """Return one element on the device: 1 if any is, else 0. Torch's fused optimizers skip only if it is 1."""
    if len(found_infs) == 1:
        return found_infs[0].to(device, non_blocking=True)
    moved = [found_inf.to(device, non_blocking=True) for found_inf in found_infs]
    return torch.stack(moved).max() if moved else torch.zeros((), device=device)


def any_in_group(found_infs: Sequence[Tensor], device: torch.device, group: Any) -> Tensor:
    """Return what any rank of a process group has found, also on a rank that has no gradients."""
    found_inf = any_of(found_infs, device)
    distributed: Any = torch.distributed
    distributed.all_reduce(found_inf, distributed.ReduceOp.MAX, group=group)
    return found_inf


def any_of_looks(found_infs: Sequence[Tensor], looks: Sequence[tuple[Ranks, ...]], device: torch.device) -> Tensor:
    """Return whether any of several checks of gradients found something, on every rank of their meshes.

    Args:
        found_infs: The result of each check.
        looks: For each check, the ranks that have agreed on its result.
        device: The device of the returned tensor.

    If they do not all concern the same meshes, this takes one more sum for each mesh and dimension of it. A rank whose
    plain optimizers have no gradients takes part, so all ranks must step the same optimizers.
    """
    found_inf = any_of(found_infs, device)
    meshes = dict.fromkeys(ranks for look in looks for ranks in look)
    if all(len(look) == len(meshes) for look in looks):
        return found_inf
    found_inf = found_inf.clone()  # the original may be in a record
    for ranks in meshes:
        found_inf = found_inf.to(ranks.device, non_blocking=True)
        sum_over(found_inf, ranks)
    return found_inf.clamp(max=1).to(device, non_blocking=True)


def sum_over(tensor: Tensor, ranks: Ranks) -> None:
    """Sum in place over all dimensions of a mesh that this rank is in."""
    mesh, distributed = ranks.mesh, torch.distributed
    for dim in range(mesh.ndim):
        if mesh.size(dim) > 1 and mesh.get_coordinate() is not None:
            distributed.all_reduce(tensor, distributed.ReduceOp.SUM, group=mesh.get_group(dim))


def _among_all(own: Finding | None, place: Place) -> Tensor:
    """Return a vector with this rank's norm in its place, and zeros for other parts. Replicas count once."""
    mesh = place.ranks.mesh
    coordinate = mesh.get_coordinate()
    part = torch.zeros(1, device=place.ranks.device) if own is None or own.norm is None else own.norm.reshape(1)
    if coordinate is None:
        return part
    count = math.prod(mesh.size(dim) for dim in place.split_dims)
    if any(coordinate[dim] for dim in range(mesh.ndim) if dim not in place.split_dims):
        return part.new_zeros(count)
    number = 0
    for dim in place.split_dims:
        number = number * mesh.size(dim) + coordinate[dim]
    return torch.nn.functional.pad(part, (number, count - number - 1))
