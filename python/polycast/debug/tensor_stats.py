"""Statistics of tensors, computed on their device: magnitudes, and errors relative to other results."""

import contextlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from polycast import devices
from polycast.debug.calls import WIDE

# Programs add -1e4 or less to scores that softmax must map to zero.
_MASK = -9e3


class Magnitude(NamedTuple):
    """The dtype of a tensor, and its largest absolute value, which is NaN if the tensor has a NaN."""

    dtype: torch.dtype
    value: float


def is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor is a plain Tensor or Parameter that is strided, has values and is not nested."""
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and not tensor.is_nested
        and not tensor._is_zerotensor()
    )


def most(numbers: Sequence[float]) -> float:
    """Return the largest number, or NaN if one is NaN."""
    return math.nan if any(map(math.isnan, numbers)) else max(numbers)


def read_numbers(tensors: Sequence[Tensor]) -> list[Any]:
    """Return the values of tensors as numbers or lists, with one copy from each device."""
    numbers = dict[int, Any]()
    for device in {tensor.device for tensor in tensors}:
        given = {index: tensor for index, tensor in enumerate(tensors) if tensor.device == device}
        dtype = torch.float64 if any(tensor.dtype is torch.float64 for tensor in given.values()) else torch.float32
        read = torch.cat([tensor.flatten().to(dtype) for tensor in given.values()]).cpu()
        parts = torch.split(read, [tensor.numel() for tensor in given.values()])
        numbers |= {index: part.reshape(given[index].shape).tolist() for index, part in zip(given, parts, strict=True)}
    return [numbers[index] for index in range(len(tensors))]


def local(tensor: Tensor | None) -> Tensor | None:
    """Return the part of a tensor in this process, as a dense real tensor; None if it is empty or cannot be read."""
    with contextlib.suppress(Exception):  # a subclass may raise any exception for an op that it does not support
        if tensor is None:
            return None
        part = tensor.to_local() if hasattr(tensor, "to_local") else tensor  # a DTensor has a shard in this process
        part = part.detach()
        part = part if part.layout is torch.strided else part.to_dense()
        part = torch.view_as_real(part.resolve_conj()) if part.is_complex() else part
        return part if is_plain(part) and part.numel() > 0 else None
    return None


@torch.no_grad()
def largest(tensor: Tensor) -> Tensor:
    """Return the largest absolute value of a tensor, NaN if it has a NaN, in float32 or float64.

    The result is 0 for an empty tensor, and for a tensor that cannot be read, such as a tensor without memory.
    """
    plain = local(tensor)
    if plain is None:
        return torch.zeros((), device=devices.HOST)
    plain = plain.to(plain.dtype if plain.dtype in WIDE else torch.float32)
    most = torch.linalg.vector_norm(plain, math.inf)
    return torch.where(plain.isnan().any(), math.nan, most)  # XLA's maximum ignores NaNs


@torch.no_grad()
def relative_errors(results: list[Tensor], expected: list[Tensor]) -> Tensor | None:
    """Return the error of each result relative to the norm of the expected one, and the norms; None if shapes differ.

    A non-finite element that equals the expected one is not an error. Other non-finite elements are infinite errors. An
    element that is very negative in both results counts as masked, not as an error, unless all elements are masked.
    """
    if [one.shape for one in results] != [one.shape for one in expected]:
        return None
    errors, norms = [], []
    for result, other in zip(results, expected, strict=True):
        dtype = torch.float64 if torch.float64 in (result.dtype, other.dtype) else torch.float32
        one, right = result.to(dtype), other.to(result.device, dtype)
        masks = (one <= _MASK) & (right <= _MASK)
        masks = masks & ~masks.all()
        same = (one == right) | (one.isnan() & right.isnan()) | masks
        off = torch.where(same, 0, one - right)
        off = _norm(torch.where(off.isnan(), math.inf, off))
        norms.append(_norm(torch.where(right.isfinite() & ~masks, right, 0)))
        error = off / torch.where(norms[-1] == 0, 1, norms[-1])
        error = torch.where(error.isnan(), math.inf, error)  # both norms overflow
        errors.append(torch.where(off == 0, 0, error))
    return torch.stack([torch.stack(errors), torch.stack(norms)]) if errors else torch.zeros(2, 1)


def _norm(values: Tensor) -> Tensor:
    """Return the norm of values that may be too large to be squared."""
    wide = values if values.dtype is torch.float64 else values.float()
    most = torch.linalg.vector_norm(wide, math.inf)  # `amax` does not reduce on XLA
    by = torch.where((most > 0) & most.isfinite(), most, 1)
    norm: Tensor = torch.linalg.vector_norm(wide / by) * by
    return norm
