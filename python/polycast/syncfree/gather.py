"""Gather the tensors of an optimizer's groups into the lists that operators take, in the manner of torch.optim.

Note [Plain tensors]

In nearly every model all tensors are plain: strided, on one device, and of no class that overrides operators. Asking
each tensor in Python would take several times as long as collecting them. So this module asks a parameter only for its
gradient, and ``all_plain``, in C++, checks whole lists. If all tensors are DTensors that are placed alike, it checks
their shards. If a list holds any other tensor, ``unusual`` gathers all tensors of that group one by one.

Note [Parameters gathered once]

A gradient scaler looks at the gradients before a step uses them. The look hands the lists that it has collected to the
step. The step uses them if the groups are the same, and each parameter still has the same gradient tensor, or still has
none; otherwise it collects again. ``same_gradients``, in C++, compares them. Devices, layouts and state are checked in
each step. The scaler keeps the lists, and with them the gradients, from a check until ``step`` or ``update``, but not
while a hook or a closure runs, which may free gradients.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from polycast._compiled import all_plain, same_gradients
from polycast.syncfree import unusual
from polycast.syncfree.batches import Batch, Gradients, Group
from polycast.syncfree.sharding import is_sharded, place_of, shards_of

_NOTHING: dict[str, Any] = {}


class Collected(NamedTuple):
    """The parameters of a group that have gradients, and these."""

    group: Group
    params: list[Tensor]
    grads: list[Tensor]


def collect(param_groups: list[Group], known: list[Collected] | None = None) -> list[Collected]:
    """Return the gradients of each group. ``known`` is returned if a new list would be the same."""
    if known is not None and len(known) == len(param_groups):
        pairs = zip(known, param_groups, strict=True)
        if all(each.group is group and same_gradients(group["params"], *each[1:]) for each, group in pairs):
            return known
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
    return unusual.gather_gradients(param_groups, params, coalesce_in_place)


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
