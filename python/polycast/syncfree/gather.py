"""Gather the tensors of an optimizer's groups into the lists that operators take, in the manner of torch.optim.

Note [Plain tensors]

In nearly every model all tensors are plain: strided, on one device, and of no class that overrides operators. Asking
each tensor in Python would take several times as long as collecting them. So this module asks a parameter only for its
gradient, and ``all_plain``, in C++, checks whole lists. If all tensors are DTensors that are placed alike, it checks
their shards. Any other group is gathered tensor by tensor, and what no operator of ours can take goes to torch.optim:
see ``slow_path``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polycast._compiled import all_plain
from polycast.syncfree.batches import Batch, Gradients, Group, name_of
from polycast.syncfree.sharding import align_grad, is_sharded, local_of, place_of, shards_of

_NOTHING: dict[str, Any] = {}


class Collected(NamedTuple):
    """The parameters of a group that have gradients, and these."""

    group: Group
    params: list[Tensor]
    grads: list[Tensor]


def collect(param_groups: list[Group]) -> list[Collected]:
    """Return the gradients of each group."""
    collected = []
    for group in param_groups:
        params, grads = [], []
        for param in group["params"]:
            grad = param.grad
            if grad is not None:
                params.append(param)
                grads.append(grad)
        collected.append(Collected(group, params, grads))
    return collected


def gather_gradients(
    param_groups: list[Group], collected: list[Collected], coalesce_in_place: bool = False
) -> list[Gradients]:
    """Return the gradients of all groups, in lists of one device and one placement.

    Args:
        param_groups: An optimizer's.
        collected: What was collected of them.
        coalesce_in_place: Whether the caller writes to the values of sparse gradients, which are then coalesced.

    Complex gradients are gathered as real ones with a last dimension of two.

    Raises:
        TypeError: Only the class of a gradient knows its values.
        ValueError: A gradient cannot be placed as its parameter is.
    """
    if len(collected) == 1:
        _, params, grads = collected[0]
    else:
        params = [param for each in collected for param in each.params]
        grads = [grad for each in collected for grad in each.grads]
    if not params:
        return []
    if all_plain([params, grads]):
        return [Gradients(grads[0].device, params, grads)]
    shards = shards_of([params, grads])
    if shards is not None and all_plain(shards):
        mesh, split_dims = place_of(params[0], param_groups)
        return [Gradients(shards[1][0].device, params, shards[1], mesh, split_dims, wholes=grads)]
    return _gather_one_by_one(param_groups, params, coalesce_in_place)


def gather_group(
    collected: Collected, state: Mapping[Tensor, dict[str, Any]], names: Sequence[str | None]
) -> Batch | None:
    """Return what a step takes of a group that has gradients, or None where not all is plain and ready.

    Args:
        collected: What was collected of the group.
        state: The optimizer's state.
        names: Those of a parameter's state, in the order of the operator's lists, None for a list that is left empty.
    """
    group, params, grads = collected
    states = [state.get(param, _NOTHING) for param in params]
    try:
        lists = [params, grads, *([values[name] for values in states] if name else [] for name in names)]
    except KeyError:
        return None
    if all_plain(lists):
        return Batch(group, grads[0].device, params, lists)
    shards = shards_of(lists)
    if shards is None or not all_plain(shards):
        return None
    written = [params, *lists[2:]]
    wholes = [tensor for tensors in written for tensor in tensors if is_sharded(tensor)]
    return Batch(group, shards[0][0].device, params, shards, wholes=wholes)


def gather_locals(
    param_groups: list[Group],
    collected: Collected,
    state: Mapping[Tensor, dict[str, Any]] | None = None,
    names: Sequence[str | None] = (),
) -> Batch | None:
    """Do what ``gather_group`` does, with shards in the place of DTensors, however they are placed.

    Gradients are placed as their parameters are. Without names only parameters and gradients are looked at.

    Raises:
        ValueError: A gradient cannot be placed as its parameter is.
    """
    group, params, _ = collected
    for param in params:
        align(param, param_groups)
    wholes: list[list[Any]] = [params, [param.grad for param in params]]
    wholes += [[state[param].get(name) for param in params] if name and state else [] for name in names]
    lists: list[list[Any]] = [list(map(local_of, tensors)) for tensors in wholes]
    if not all_plain(lists) and not all(hasattr(tensor, "fake_device") for tensors in lists for tensor in tensors):
        return None
    sharded = [tensor for tensors in (params, *wholes[2:]) for tensor in tensors if is_sharded(tensor)]
    return Batch(group, lists[0][0].device, params, lists, wholes=sharded)


def align(param: Tensor, param_groups: list[Group]) -> tuple[Any, tuple[int, ...]]:
    """Place a gradient as its parameter is; return the mesh and the dimensions that split it."""
    if is_sharded(param):
        align_grad(param, param_groups)
    elif is_sharded(param.grad):
        name = name_of(param_groups, param)
        raise ValueError(f"the gradient of {name} is a DTensor and the parameter is none; give it a plain tensor")
    return place_of(param, param_groups)


def _gather_one_by_one(param_groups: list[Group], params: list[Tensor], coalesce_in_place: bool) -> list[Gradients]:
    gathered: list[tuple[Any, Gradients]] = []
    for param in params:
        mesh, split_dims = align(param, param_groups)
        grad = param.grad
        assert grad is not None
        if coalesce_in_place and grad.is_sparse and not grad.is_coalesced():
            param.grad = grad = grad.coalesce()
        local = local_of(grad)
        if torch._C._dispatch_keys(local).has(torch._C.DispatchKey.Python) and not hasattr(local, "fake_device"):
            raise TypeError(
                f"the gradient of {name_of(param_groups, param)} is a {type(local).__name__}, whose values only that "
                "class knows; give it a plain tensor or a DTensor"
            )
        # The duplicates of a gradient that is not coalesced add up.
        memory = _memory_of(local.coalesce()._values() if local.is_sparse else local)
        place = memory.device, mesh, split_dims
        gradients = next((found for there, found in gathered if there == place), None)
        if gradients is None:
            gradients = Gradients(memory.device, [], [], mesh, split_dims)
            gathered.append((place, gradients))
        gradients.params.append(param)
        gradients.grads.append(memory)
        if is_sharded(grad):
            gradients.wholes.append(grad)
    return [gradients for _, gradients in gathered]


def _memory_of(grad: Tensor) -> Tensor:
    """Return the memory of a gradient, which may be a view of its conjugate or its negative, as real numbers.

    What is not finite, the norm, and the product with a number are the same there but for signs.
    """
    if grad._is_zerotensor():
        return torch.zeros_like(grad)
    straight = grad.conj() if grad.is_conj() else grad
    straight = torch._neg_view(straight) if straight.is_neg() else straight
    return torch.view_as_real(straight.detach()) if straight.is_complex() else straight
