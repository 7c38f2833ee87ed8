"""Gather the tensors of an optimizer's groups into the lists that operators take, in the manner of torch.optim.

Note [Plain tensors]

Nearly every model has strided tensors of one device, of no class with a say in what operators do. To ask each of them
in Python would take several times as long as to collect them. So this module asks a tensor for nothing but its
gradient, and ``all_plain``, in C++, says of whole lists whether an operator can take them. Where it says no,
``unusual`` sorts the tensors one by one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from polycast._compiled import all_plain
from polycast.syncfree import unusual
from polycast.syncfree.batches import Batch, Gradients, Group

_NOTHING: dict[str, Any] = {}
_NOWHERE = torch.device("meta")


def gather_gradients(param_groups: list[Group], coalesce_in_place: bool = False) -> list[Gradients]:
    """Return the gradients of all groups, in lists of one device and one placement.

    Args:
        param_groups: An optimizer's.
        coalesce_in_place: Whether the caller writes to the values of sparse gradients, which are then coalesced.

    Raises:
        TypeError: Only the class of a gradient knows its values.
        ValueError: A gradient cannot be placed as its parameter is.
    """
    params: list[Tensor] = []
    grads: list[Tensor] = []
    for group in param_groups:
        _add_gradients(group, params, grads)
    if not params:
        return []
    if all_plain([params, grads]):
        return [Gradients(grads[0].device, params, grads)]
    return unusual.sort_gradients(param_groups, params, coalesce_in_place)


def gather_group(group: Group, state: Mapping[Tensor, dict[str, Any]], names: Sequence[str | None]) -> Batch | None:
    """Return what a step takes of a group, or None where not all is plain and ready.

    Args:
        group: One of an optimizer's groups.
        state: The optimizer's state.
        names: Those of a parameter's state, in the order of the operator's lists, None for a list that is left empty.
    """
    params: list[Tensor] = []
    grads: list[Tensor] = []
    _add_gradients(group, params, grads)
    if not params:
        return Batch(group, _NOWHERE, params, [])
    states = [state.get(param, _NOTHING) for param in params]
    try:
        lists = [params, grads, *([values[name] for values in states] if name else [] for name in names)]
    except KeyError:
        return None
    return Batch(group, grads[0].device, params, lists) if all_plain(lists) else None


def _add_gradients(group: Group, params: list[Tensor], grads: list[Tensor]) -> None:
    for param in group["params"]:
        grad = param.grad
        if grad is not None:
            params.append(param)
            grads.append(grad)
