"""Facts about ATen operators: whether they view, cast, draw random numbers, or write."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from polycast.policy.op_names import keys_of
from polycast.torch_internals import OpOverload, tree_leaves

Function = OpOverload
Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Kind = Callable[[Any], Iterator[Tensor]]

# These overwrite all that was there.
_DRAWS = ("bernoulli_", "cauchy_", "exponential_", "log_normal_", "normal_", "uniform_")
_FILLS = [f"aten::{name}" for name in ("copy_", "fill_", "zero_", *_DRAWS)]
# These random ops do not return the numbers that they draw: they change their inputs by them.
_DRAW_WITHIN = ("dropout", "attention", "rnn", "lstm", "gru", "rrelu")


def tensors(values: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested values."""
    yield from (leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor))


def floating(values: Any) -> Iterator[Tensor]:
    """Yield the floating-point and complex tensors in nested values."""
    yield from (tensor for tensor in tensors(values) if tensor.is_floating_point() or tensor.is_complex())


def unique(some: list[Tensor]) -> list[Tensor]:
    """Return tensors once each."""
    return list({id(tensor): tensor for tensor in some}.values())


def is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor has values, strided in memory of its own."""
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and not tensor.is_nested
        and not tensor._is_zerotensor()
    )


def by_name(function: Function, args: Args, kwargs: Kwargs) -> Kwargs:
    """Return the arguments of a call by their names, without those that are left out."""
    return dict(zip((argument.name for argument in function._schema.arguments), args, strict=False)) | kwargs


def written(function: Function, args: Args, kwargs: Kwargs, of: Kind = floating) -> Iterator[Tensor]:
    """Yield the tensors that a call writes into; by default the floating-point ones."""
    if function._schema.is_mutable:
        given = by_name(function, args, kwargs)
        yield from of([given.get(argument.name) for argument in function._schema.arguments if _writes(argument)])


def read(function: Function, args: Args, kwargs: Kwargs, of: Kind = floating) -> Iterator[Tensor]:
    """Yield the tensors whose values a call reads, not the ones that it overwrites; by default floating-point ones."""
    fills = function._schema.name in _FILLS
    given = by_name(function, args, kwargs)
    for argument in function._schema.arguments:
        if not (_writes(argument) and (fills or argument.is_out)):
            yield from of(given.get(argument.name))


def _writes(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def is_cast(function: Function) -> bool:
    """Return whether an op only changes the dtype or the device of its input."""
    return function._schema.name in ("aten::_to_copy", "aten::to")


def written_name(op: str) -> str:
    """Return an op by the name that people write, if that is an op too: "softmax" for "_softmax"."""
    name = "to" if op == "_to_copy" else op.removeprefix("_").removeprefix("native_")
    return name if keys_of(name) else op


def is_empty(function: Function) -> bool:
    """Return whether an op returns memory that nothing has written yet."""
    return function._schema.name.startswith(("aten::empty", "aten::new_empty"))


def is_view(function: Function) -> bool:
    """Return whether an op computes no values: it returns its input's memory, or memory without values."""
    named = function._schema.name in ("aten::detach", "aten::_unsafe_view")
    tags = {torch.Tag.view_copy, torch.Tag.inplace_view}
    return named or function.is_view or is_empty(function) or not tags.isdisjoint(function.tags)


def is_draw(function: Function) -> bool:
    """Return whether an op returns, or writes, the random numbers that it draws."""
    is_random = torch.Tag.nondeterministic_seeded in function.tags and function.namespace == "aten"
    return is_random and not any(name in function._schema.name for name in _DRAW_WITHIN)


def draws_within(function: Function, args: Args, kwargs: Kwargs) -> bool:
    """Return whether a call draws random numbers that only its kernel knows."""
    if torch.Tag.nondeterministic_seeded not in function.tags or is_draw(function):
        return False
    given = by_name(function, args, kwargs)
    drops = [given[name] for name in ("p", "dropout_p", "dropout") if name in given]
    is_on = given.get("train") is not False and given.get("training") is not False
    return is_on and any(drops or ["training" in given or function.namespace != "aten"])


def can_rerun(function: Function, args: Args, kwargs: Kwargs) -> bool:
    """Return whether a call may be made once more, with copies in another dtype.

    The op must be ATen's own, which only computes, and give the same each time. Bytes among the arguments may be the
    workspace that a forward kernel has left, in its dtype, for its backward.
    """
    return (
        function.namespace == "aten"
        and not is_draw(function)
        and not draws_within(function, args, kwargs)
        and all(map(is_plain, floating((args, kwargs))))
        and not any(isinstance(leaf, Tensor) and leaf.dtype is torch.uint8 for leaf in tree_leaves((args, kwargs)))
    )
