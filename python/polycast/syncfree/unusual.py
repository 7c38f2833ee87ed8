"""Gather tensors one by one: DTensors, views of conjugates, subclasses, several devices, missing state."""

from collections.abc import Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor

from polycast.syncfree.batches import Batch, Gradients, Group, name_of
from polycast.syncfree.sharding import align_grad, is_sharded, local_of, place_of


def gather_gradients(param_groups: list[Group], params: list[Tensor], coalesce_in_place: bool) -> list[Gradients]:
    """Do what `gather.gather_gradients` does, for any parameters that have gradients."""
    gathered: list[tuple[Any, Gradients]] = []
    for param in params:
        mesh, split_dims = _align(param, param_groups)
        grad = param.grad
        assert grad is not None
        if coalesce_in_place and grad.is_sparse and not grad.is_coalesced():
            param.grad = grad = grad.coalesce()
        local = local_of(grad)
        if is_opaque(local):
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


def is_ready(param: Tensor, state: dict[str, Any], names: Sequence[str | None]) -> bool:
    """Return whether the state holds a tensor under each name that can go with the parameter as it is."""
    return all(name is None or _fits(state.get(name), param) for name in names)


def gather_batches(
    param_groups: list[Group],
    group: Group,
    params: list[Tensor],
    states: list[dict[str, Any]],
    names: Sequence[str | None],
) -> list[Batch]:
    """Return what a step takes of some parameters of a group, whose gradients are not sparse.

    Raises:
        TypeError: A parameter's state lacks a tensor, or has one without memory.
        ValueError: A parameter, its gradient and its state are not placed alike.
    """
    batches: dict[tuple[torch.device, bool], Batch] = {}
    for param, state in zip(params, states, strict=True):
        _align(param, param_groups)
        grad = param.grad
        assert grad is not None
        kept = [_kept(param, state, key, param_groups) for key in names if key]
        wholes = [param, grad, *kept]
        locals_ = list(map(local_of, wholes))
        place = locals_[0].device, any(map(is_opaque, locals_))
        batch = batches.setdefault(place, Batch(group, place[0], [], [[] for _ in range(2 + len(names))], place[1]))
        batch.params.append(param)
        filled = [0, 1, *(number for number, key in enumerate(names, 2) if key)]
        for number, local in zip(filled, locals_, strict=True):
            if local._is_zerotensor() and number != 1:
                raise TypeError(
                    f"{name_of(param_groups, param)} or its state is a ZeroTensor, which has no memory; clone it first"
                )
            batch.lists[number].append(_values_of(local) if number == 1 else _writable(batch, local))
        batch.wholes += [whole for whole in (param, *kept) if is_sharded(whole)]
    return list(batches.values())


def is_opaque(tensor: Tensor) -> bool:
    """Return whether only a tensor's class knows its values. Every operator knows fake ones by their meta tensors."""
    is_plain = type(tensor) in (Tensor, torch.nn.Parameter)
    if is_plain or not torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python):
        return False
    from torch._subclasses.fake_tensor import FakeTensor

    return not isinstance(tensor, FakeTensor)


def _align(param: Tensor, param_groups: list[Group]) -> tuple[Any, tuple[int, ...]]:
    """Place a gradient as its parameter is; return the mesh and the dimensions that split it."""
    grad = param.grad
    assert grad is not None
    if is_sharded(param):
        align_grad(param, param_groups)
    elif is_sharded(grad):
        name = name_of(param_groups, param)
        raise ValueError(f"the gradient of {name} is a DTensor and the parameter is none; give it a plain tensor")
    return place_of(param, param_groups)


def _fits(value: Any, param: Tensor) -> TypeGuard[Tensor]:
    if not isinstance(value, Tensor) or value.device != param.device or value.layout != torch.strided:
        return False
    if not is_sharded(value) or not is_sharded(param) or value.shape != param.shape:
        return True
    return local_of(value).shape == local_of(param).shape


def _kept(param: Tensor, state: dict[str, Any], key: str, param_groups: list[Group]) -> Tensor:
    """Return a tensor of a parameter's state."""
    value = state.get(key)
    if not isinstance(value, Tensor):
        found = "nothing" if value is None else f"a {type(value).__name__}"
        name = name_of(param_groups, param)
        raise TypeError(f"the state of {name} has {found} under {key!r}; give it a tensor")
    if is_sharded(value) and not is_sharded(param):
        name = name_of(param_groups, param)
        raise ValueError(f"the state of {name} is a DTensor and the parameter is none; load it as a tensor")
    return value


def _memory_of(grad: Tensor) -> Tensor:
    """Return the memory of a gradient, which may be a view of its conjugate or its negative.

    What is not finite, the norm, and the product with a number are the same there but for signs.
    """
    if grad._is_zerotensor():
        return torch.zeros_like(grad)
    straight = grad.conj() if grad.is_conj() else grad
    return torch._neg_view(straight) if straight.is_neg() else straight


def _values_of(grad: Tensor) -> Tensor:
    """Return the values of a tensor that is only read."""
    if grad._is_zerotensor():
        return torch.zeros_like(grad)
    return grad.resolve_conj().resolve_neg() if grad.is_conj() or grad.is_neg() else grad


def _writable(batch: Batch, tensor: Tensor) -> Tensor:
    """Return a tensor that a step can write to, itself or a copy, which is written back."""
    if not tensor.is_conj() and not tensor.is_neg():
        return tensor
    copy = tensor.resolve_conj().resolve_neg()
    batch.copies.append((tensor, copy))
    return copy
