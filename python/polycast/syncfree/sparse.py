"""A step of SGD by a sparse gradient: what it reads and writes are the rows that the gradient or the momentum has."""

import math
from typing import Any

import torch
from torch import Tensor

from polycast.syncfree.momentum import negated


def step_with_momentum(
    param: Tensor, grad: Tensor, buffer: Tensor | None, dtype: torch.dtype, **options: Any
) -> Tensor:
    """Update a parameter, and return its momentum buffer, sparse as torch.optim's.

    Args:
        param: The parameter, on the host.
        grad: Its sparse gradient.
        buffer: Its sparse momentum buffer, which may be written; None at the first step, which is not dampened.
        dtype: The dtype of a new buffer.
        options: What ``sgd_step_`` takes beside its lists.
    """
    # Where dtypes differ, or are narrow, only the operator rounds once.
    if param.element_size() > 2 and param.dtype == (dtype if buffer is None else buffer.dtype):
        return _step_by_additions(param, grad, buffer, dtype, options)
    grad = grad.coalesce()
    if buffer is None:
        indices, values = grad.indices(), grad.values()
        momentum = negated(torch.zeros_like(values, dtype=dtype))
        options["dampening"] = 0.0
    else:
        if buffer.sparse_dim() != grad.sparse_dim():
            buffer = buffer.to_dense().to_sparse(grad.sparse_dim())
        buffer = buffer.coalesce()
        indices, values, momentum = _joined(grad, buffer)
    rows = tuple(indices)
    updated = param[rows]
    torch.ops.polycast.sgd_step_([updated], [values], [momentum], [], **options)
    param[rows] = updated
    if buffer is not None and momentum.data_ptr() == buffer.values().data_ptr():
        torch.autograd.graph.increment_version(buffer)
        return buffer
    return torch.sparse_coo_tensor(indices, momentum, param.shape, check_invariants=False, is_coalesced=True)


def step_without_momentum(param: Tensor, grad: Tensor, **options: Any) -> None:
    """Update a parameter by torch's own addition, which sums the duplicates of a gradient on its way."""
    param.add_(_scaled(grad, options), alpha=-_rate(options))


def _step_by_additions(
    param: Tensor, grad: Tensor, buffer: Tensor | None, dtype: torch.dtype, options: dict[str, Any]
) -> Tensor:
    """Do what torch.optim does, whose buffer has a place for each element of each gradient, but bound its size."""
    lr, momentum = _rate(options), options["momentum"]
    grad = _scaled(grad, options).to(dtype if buffer is None else buffer.dtype)
    if buffer is None:
        buffer = grad.clone()
    else:
        buffer.mul_(momentum).add_(grad, alpha=1 - options["dampening"])
    change = grad.add(buffer, alpha=momentum) if options["nesterov"] else buffer
    param.add_(change.to(param.dtype), alpha=-lr)
    places = math.prod(grad.shape[: grad.sparse_dim()])
    return buffer.coalesce() if buffer._nnz() > places else buffer


def _rate(options: dict[str, Any]) -> float:
    lr = float(options["lr"])
    if math.isnan(lr):
        raise ValueError("sgd_step_: lr is nan; pass a number")
    return lr


def _scaled(grad: Tensor, options: dict[str, Any]) -> Tensor:
    """Return the gradient unscaled, clipped and, to maximize, negated."""
    factor = -1.0 if options["maximize"] else 1.0
    if options["grad_scale"] is not None:
        factor /= float(options["grad_scale"])
    if options["clip_coef"] is not None:
        factor *= float(options["clip_coef"])
    if factor != 1:
        values = grad._values() * factor
        grad = torch.sparse_coo_tensor(
            grad._indices(), values, grad.shape, check_invariants=False, is_coalesced=grad.is_coalesced()
        )
    return grad


def _joined(grad: Tensor, buffer: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the places that either has, and the values of both there; those of the buffer itself if it has all."""
    shape = grad.shape[: grad.sparse_dim()]
    ours, theirs = _keys(grad, shape), _keys(buffer, shape)
    found = torch.searchsorted(theirs, ours)
    if len(theirs) and theirs[found.clamp(max=len(theirs) - 1)].equal(ours):
        return buffer.indices(), _spread(grad.values(), found, len(theirs)), buffer.values()
    keys: Tensor = torch.cat([theirs, ours]).unique()  # type: ignore[no-untyped-call]
    momentum = _spread(buffer.values(), torch.searchsorted(keys, theirs), len(keys))
    indices = keys[None] if len(shape) == 1 else torch.stack(torch.unravel_index(keys, shape))
    return indices, _spread(grad.values(), torch.searchsorted(keys, ours), len(keys)), momentum


def _keys(tensor: Tensor, shape: torch.Size) -> Tensor:
    """Return one number for each place, in their order."""
    indices = tensor.indices()
    keys = indices[0]
    for index, size in zip(indices[1:], shape[1:], strict=True):
        keys = keys * size + index
    return keys


def _spread(values: Tensor, places: Tensor, count: int) -> Tensor:
    """Return the values at their places among so many, and zeros elsewhere."""
    return values.new_zeros((count, *values.shape[1:])).index_copy_(0, places, values)
