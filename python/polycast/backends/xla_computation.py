"""One XLA computation over whole lists of tensors: built once, called lazily, its results written back in place.

torch_xla traces every operator into a graph whose nodes cost host time, at each step again. A user computation is one
node, however many tensors it takes. This module alone of the optimizer's three on XLA touches torch_xla.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from math import inf, prod
from operator import attrgetter
from typing import Any, TypeAlias

import torch
from torch import Tensor

from polycast.backends.xla import TYPE

Op: TypeAlias = Any
"""A ``torch_xla.core.xla_builder.Op``."""

Build: TypeAlias = Callable[[list[Op]], list[Op]]

_LIMIT = 256
_signature = attrgetter("dtype", "shape")
_computations: dict[Hashable, Any] = {}
# Without this key torch_xla returns bare tensors, which are what the write-back wants.
_FUNCTIONALIZE = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)


def update(rule: Hashable, build: Build, written: Sequence[Tensor], read: Sequence[Tensor]) -> None:
    """Give the tensors to be written the values that ``build`` makes of both lists, in the order of the first."""
    with torch._C._ExcludeDispatchKeyGuard(_FUNCTIONALIZE):
        results = call(rule, build, [*written, *read])
    _write(written, results)


def call(rule: Hashable, build: Build, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Trace ``build`` over the inputs' shapes, once for each (rule, dtypes, shapes), and apply it lazily.

    Args:
        rule: What distinguishes this computation from others over the same shapes; its text must not depend on values.
        build: From the inputs as ops to at least one result.
        inputs: Tensors on one XLA device; those to be overwritten first, in the order of the results.

    Returns:
        The results, not executed before the next step marker.
    """
    import torch_xla

    # torch_xla numbers a node's inputs from the last to the first, and XLA gives the first result the first buffer that
    # is free and fits. In this order each result gets its own old buffer; in any other, every tensor is copied twice.
    computation = _computation(rule, build, inputs)
    results: list[Tensor] = torch_xla._XLAC._xla_user_computation("xla::polycast", inputs[::-1], computation)
    return results


def _computation(rule: Hashable, build: Build, inputs: Sequence[Tensor]) -> Any:
    key = (rule, tuple(map(_signature, inputs)))
    if key not in _computations:
        if len(_computations) >= _LIMIT:
            del _computations[next(iter(_computations))]
        _computations[key] = _built(build, inputs)
    return _computations[key]


def _built(build: Build, inputs: Sequence[Tensor]) -> Any:
    from torch_xla.core import xla_builder

    def root(*ops: Op) -> Op:
        return xla_builder.Op.tuple(build(list(ops[::-1])))

    return xla_builder.create_computation("polycast", root, xla_builder.tensor_shape(list(inputs[::-1])))


def _write(targets: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Give the targets, their aliases and views the results as values, as ``copy_`` does, and raise the versions.

    These are the steps of functionalization for an operator that writes, list by list because there are many tensors.
    """
    torch._C._increment_version(targets)
    if not all(map(torch._is_functional_tensor, targets)):  # XLA_DISABLE_FUNCTIONALIZATION
        for target, result in zip(targets, results, strict=True):
            target.detach().copy_(result)
        return
    # torch_xla gives the buffer of the old value to the new one where their alias ids agree.
    _each(torch._propagate_xla_data, map(torch._from_functional_tensor, targets), results)
    _each(torch._functionalize_replace, targets, results)
    _each(torch._functionalize_commit_update, targets)
    _each(torch._functionalize_sync, targets)


def _each(function: Callable[..., object], *columns: Iterable[Tensor]) -> None:
    deque(map(function, *columns), maxlen=0)


@lru_cache(maxsize=64)
def upload(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Return a vector of the values in float64, resident on the device for as long as the same values are asked for.

    A vector: torch_xla makes constants of the graph out of scalars such as 0 and 1, and compiles for each of them.
    """
    return torch.tensor(values, dtype=torch.float64).to(device)


def on_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of one element on the device, uploaded as a vector where it is not there."""
    return tensor if tensor.device.type == TYPE else tensor.detach().reshape(1).to(device)


def scalar(op: Op, index: int = 0) -> Op:
    """Return one element of an op of any shape, of rank 0."""
    flat = op.reshape((prod(op.shape().sizes),))
    return flat.slice_in_dim(index, index + 1, 0).reshape(())


def like(op: Op, other: Op) -> Op:
    """Spread a scalar over the shape and dtype of the other op."""
    shape = other.shape()
    return op.cast(shape.dtype).broadcast(shape.sizes)


def constant(op: Op, value: float) -> Op:
    """Return a constant of the op's shape and dtype."""
    return op.scalar_like(value)


def boolean(op: Op, value: bool) -> Op:
    """Return a truth value of rank 0, on the op's builder."""
    return type(op).scalar(op.builder(), value, dtype="pred")


def concatenated(ops: Sequence[Op]) -> Op:
    """Return the scalars as a vector."""
    return ops[0].concat_in_dim([op.reshape((1,)) for op in ops], 0)


def reduced(op: Op, start: float, combine: Callable[[Op, Op], Op]) -> Op:
    """Return all elements combined into one, of the op's dtype."""
    return op.reduce_all(type(op).scalar(op.builder(), start, dtype=op.shape().dtype), combine)


def all_finite(op: Op) -> Op:
    """Return whether no element is inf or NaN; every comparison with NaN is false."""
    return reduced(op.max(-op) < constant(op, inf), True, lambda a, b: a & b)


def non_finite_flags(ops: Sequence[Op]) -> list[Op]:
    """Return whether any op has an inf or NaN, as 0 or 1 in float32, and a vector of which ones do."""
    finite = concatenated([all_finite(op) for op in ops])
    found_inf = reduced(finite, True, lambda a, b: a & b) != boolean(finite, True)
    return [found_inf.cast("f32"), finite != constant(finite, True)]


def total_norm(ops: Sequence[Op], norm_type: float) -> Op:
    """Return the norm of all elements of all ops in float32, with sums in float64."""
    sizes = [op.max(-op) for op in [op.cast("f64") for op in ops]]
    if norm_type == inf:
        return _folded(sizes, lambda a, b: a.max(b)).cast("f32")
    return _power(_folded([_power(size, norm_type) for size in sizes], lambda a, b: a + b), 1 / norm_type).cast("f32")


def _folded(ops: Sequence[Op], combine: Callable[[Op, Op], Op]) -> Op:
    return reduced(concatenated([reduced(op, 0, combine) for op in ops]), 0, combine)


def _power(op: Op, exponent: float) -> Op:
    if exponent == 0.5:
        return op.sqrt()
    return op * op if exponent == 2 else op if exponent == 1 else op ** constant(op, exponent)
