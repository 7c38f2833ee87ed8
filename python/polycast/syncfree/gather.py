"""The lists of tensors that operators require, gathered from an optimizer's groups.

Note [Why are lists of tensors checked in C++?]

In nearly every model all tensors are plain: strided, on one device, and without a class that overrides operators.
Checks of each tensor in Python would be several times slower than the collection of the tensors. This module therefore
reads only the gradient of a parameter, and ``all_plain``, in C++, checks whole lists. If a list is not plain, a
scaler gathers the gradients one by one. For a step, ``all_plain`` then checks the shards of DTensors. If the shards are
not plain either, ``torch.optim`` steps the group (see ``slow_path``).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import attrgetter, is_not, itemgetter
from typing import Any

import torch
from torch import Tensor

from polycast._extension import all_plain
from polycast.syncfree.sharding import align_grad, is_sharded, local_of, shards_of
from polycast.syncfree.tensor_lists import NOTHING, Group, TensorLists, name_of
from polycast.torch_internals import DispatchKey, keys_of, neg_view

_grad_of = attrgetter("grad")


def with_gradients(all_params: Iterable[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the parameters that have gradients, and the gradients."""
    params = list(all_params)
    grads: list[Any] = list(map(_grad_of, params))
    if all(map(is_not, grads, repeat(None))):
        return params, grads
    has_grad = [grad is not None for grad in grads]
    return list(compress(params, has_grad)), list(compress(grads, has_grad))


def gather_gradients(
    param_groups: list[Group], *, write: bool = False, add_duplicates: bool = False
) -> list[TensorLists]:
    """Return the gradients of all groups: one list for each device, mesh and tuple of split dimensions.

    Args:
        param_groups: The groups of an optimizer.
        write: Whether the caller writes to the gradients. A gradient that is coalesced then replaces ``.grad``.
        add_duplicates: Whether to add the duplicates in all sparse gradients, as a norm requires. Otherwise, as in
            ``torch.amp.GradScaler``, only duplicates in float16 gradients are added, because their sum may overflow.

    Complex gradients are gathered as real ones with a last dimension of two.

    Raises:
        TypeError: If a gradient's class overrides operators and is not DTensor, AsyncCollectiveTensor or FakeTensor.
        RuntimeError: If a gradient cannot have the placement of its parameter.
    """
    params, grads = with_gradients(chain.from_iterable(map(itemgetter("params"), param_groups)))
    if params and all_plain([params, grads]):
        return [TensorLists(grads[0].device, params, [grads])]
    return _gather_one_by_one(param_groups, params, write, add_duplicates)


def gather_group(
    params: list[Tensor], grads: list[Tensor], state: Mapping[Tensor, dict[str, Any]], names: Sequence[str | None]
) -> TensorLists | None:
    """Return the lists for a step of parameters that have gradients, or None if ``torch.optim`` must step them.

    The names of a parameter's state are in the order of the operator's lists. The name None stands for an empty list.

    Raises:
        KeyError: If the state of a parameter lacks one of the names.
    """
    # Each parameter is looked up once, because the hash of a tensor is computed in Python.
    states = list(map(state.get, params, repeat(NOTHING)))
    lists: list[list[Any]] = [params, grads]
    for name in names:
        lists.append([] if name is None else list(map(itemgetter(name), states)))
    if all_plain(lists):
        return TensorLists(params[0].device, params, lists)
    shards = shards_of(lists)
    if shards is None or not (all_plain(shards) or all(hasattr(each, "fake_device") for row in shards for each in row)):
        return None
    wholes = [tensor for row in (params, *lists[2:]) for tensor in row if is_sharded(tensor)]
    return TensorLists(shards[0][0].device, params, shards, wholes)


def _gather_one_by_one(
    param_groups: list[Group], params: list[Tensor], write: bool, add_duplicates: bool
) -> list[TensorLists]:
    gathered: dict[Any, TensorLists] = {}
    for param in params:
        mesh, split_dims = align_grad(param)
        grad: Any = param.grad
        if grad.is_sparse and (add_duplicates or grad.dtype is torch.float16):
            grad = grad.coalesce()
            if write:
                param.grad = grad
        local = local_of(grad)
        if keys_of(local).has(DispatchKey.Python) and not hasattr(local, "fake_device"):
            raise TypeError(
                f"{name_of(param_groups, param)}.grad: expected a plain tensor or a DTensor, got a "
                f"{type(local).__name__}; convert it to a plain tensor"
            )
        memory = _memory_of(local._values() if local.is_sparse else local)
        empty = TensorLists(memory.device, [], [[]], (), mesh, split_dims)
        lists = gathered.setdefault((memory.device, mesh, split_dims), empty)
        lists.params.append(param)
        lists.lists[0].append(memory)
        if mesh is not None:
            lists.wholes = *lists.wholes, grad
    return list(gathered.values())


def _memory_of(grad: Tensor) -> Tensor:
    """Return the memory of a gradient as real numbers. The gradient may be a conjugate or negative view of its memory.

    The signs of the memory do not matter to a check, a norm, or a multiplication by a number.
    """
    straight = grad.conj() if grad.is_conj() else grad
    straight = neg_view(straight) if straight.is_neg() else straight
    return torch.view_as_real(straight.detach()) if straight.is_complex() else straight
