"""Casts of an op's arguments according to a rule, without autocast, and comparisons of results."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from polycast.op_samples import Arguments
from polycast.torch_internals import tree_leaves, tree_map_only

# Autocast does not cast floating-point dtypes of less than 16 bits, because their values need a scale.
NARROW = [
    dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point and dtype.itemsize < 2
]
_SETS_DTYPE = ("fp32_set_opt_dtype", "fp32_append_dtype")
Result = list[Tensor] | str  # a list has a call's results, and a str is the first line of its error


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, without periods, colons and spaces at its end."""
    return str(error).strip().partition("\n")[0].rstrip(".: ")


def outcome(call: Callable[[], Any]) -> Result:
    """Run a call without gradients. Return copies of its tensors on the CPU, or the first line of its RuntimeError."""
    try:
        with torch.no_grad():
            return [tensor.cpu() for tensor in flatten(call())]
    except RuntimeError as error:
        return first_line(error)


def same(ours: Result, theirs: Result) -> bool:
    """Return whether two results have the same error message, or the same dtypes, shapes and bits."""
    if isinstance(ours, str) or isinstance(theirs, str) or len(ours) != len(theirs):
        return ours == theirs
    return all(map(same_bits, ours, theirs))


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Return whether two tensors have the same dtype, shape and bits, including NaNs and the signs of zeros."""
    return left.dtype == right.dtype and left.shape == right.shape and _bits(left).equal(_bits(right))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)


def cast_by_hand(category: str, sample: Arguments, lower: torch.dtype) -> Arguments:
    """Return the arguments of a sample, cast as a rule of the category casts them."""
    if category in _SETS_DTYPE:
        return Arguments(sample.args, {**sample.kwargs, "dtype": torch.float32})
    dtypes = iter(expected(category, [tensor.dtype for tensor in flatten(sample)], lower))
    return replaced(sample, lambda tensor: tensor.to(next(dtypes)))


def expected(category: str, given: list[torch.dtype], lower: torch.dtype) -> list[torch.dtype]:
    """Return the dtypes to which a category casts inputs of the given dtypes."""
    eligible = [dtype for dtype in given if dtype.is_floating_point and dtype not in (torch.float64, *NARROW)]
    if category == "input_dtype" or not eligible:
        return given
    widest = functools.reduce(torch.promote_types, eligible)
    to = {"lower_precision_fp": lower, "fp32": torch.float32, "promote": widest}[category]
    return [to if dtype in eligible else dtype for dtype in given]


def flatten(value: Any) -> list[Tensor]:
    """Return the tensors in nested tuples, lists and dicts, such as the arguments of a call."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def replaced(sample: Arguments, change: Callable[[Tensor], Tensor]) -> Arguments:
    """Return the arguments with ``change`` applied to each tensor, in the order of ``flatten``."""
    return Arguments(*tree_map_only(Tensor, change, tuple(sample)))
