"""Lists of tensors computed with as a few tensors: joined where they are small, in pieces where they are large."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

Tensors: TypeAlias = list[Tensor]
# This many elements keep a device busy for longer than a kernel takes to launch, and copies of them need little memory.
LIMIT = 1 << 22


def parts(lists: list[Tensors], dtypes: list[torch.dtype]) -> Iterator[tuple[torch.dtype, list[int], list[Tensors]]]:
    """Yield what is computed at once: its dtype, the places in the lists, and of each list the tensors, or pieces."""
    rows = [(place, row) for place, tensors in enumerate(zip(*lists, strict=True)) for row in _pieces(tensors)]
    for chunk in chunks([dtypes[place] for place, _ in rows], [numel(row[0]) for _, row in rows]):
        places, taken = zip(*(rows[index] for index in chunk), strict=True)
        yield dtypes[places[0]], list(places), [list(tensors) for tensors in zip(*taken, strict=True)]


def _pieces(tensors: Sequence[Tensor]) -> Iterable[Sequence[Tensor]]:
    """Return the tensors, large ones in pieces, so that what is computed on the way needs little memory."""
    if numel(tensors[0]) <= LIMIT or not all(tensor.is_contiguous() for tensor in tensors):
        return [tensors]
    return zip(*(torch.split(tensor.view(-1), LIMIT) for tensor in tensors), strict=True)


def chunks(kinds: Sequence[Hashable], sizes: Sequence[int]) -> list[list[int]]:
    """Return the places of all in chunks of one kind, of up to LIMIT elements."""
    result: list[list[int]] = []
    last: dict[Hashable, tuple[list[int], int]] = {}
    for place, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
        chunk, total = last.get(kind, ([], 0))
        if not chunk or total + size > LIMIT:
            chunk, total = [], 0
            result.append(chunk)
        chunk.append(place)
        last[kind] = chunk, total + size
    return result


def joined(tensors: Tensors, dtype: torch.dtype) -> Tensor:
    """Return the values of tensors one after the other; of a single tensor, in its shape."""
    return (tensors[0] if len(tensors) == 1 else torch.cat([tensor.reshape(-1) for tensor in tensors])).to(dtype)


def write(tensors: Tensors, values: Tensor) -> None:
    """Copy what was computed of joined tensors back."""
    if len(tensors) == 1:
        tensors[0].copy_(values)
    else:
        rows = torch.split(values, [tensor.numel() for tensor in tensors])
        torch._foreach_copy_(tensors, [row.view(tensor.shape) for row, tensor in zip(rows, tensors, strict=True)])


def numel(tensor: Tensor) -> int:
    """Return the number of elements; of a symbolic shape, as many as are computed with at once."""
    count: Any = tensor.numel()
    return count if isinstance(count, int) else LIMIT


def as_real(tensors: Tensors) -> Tensors:
    """Return complex tensors as real ones with a last dimension of two; the others as they are."""
    return [torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor for tensor in tensors]
