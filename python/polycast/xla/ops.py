"""Functions over ``torch_xla.core.xla_builder.Op``, from which the computations are built."""

from collections.abc import Callable, Sequence
from math import inf, nan, prod
from typing import Any, TypeAlias

Op: TypeAlias = Any
"""A ``torch_xla.core.xla_builder.Op``."""


def scalar(op: Op, index: int = 0) -> Op:
    """Return one element of an op of any shape, as a scalar."""
    flat = op.reshape((prod(op.shape().sizes),))
    return flat.slice_in_dim(index, index + 1, 0).reshape(())


def like(op: Op, other: Op) -> Op:
    """Return a scalar broadcast to the shape and cast to the dtype of the other op."""
    shape = other.shape()
    return op.cast(shape.dtype).broadcast(shape.sizes)


def concatenated(ops: Sequence[Op]) -> Op:
    """Return a vector of the scalars."""
    return ops[0].concat_in_dim([op.reshape((1,)) for op in ops], 0)


def reduced(op: Op, start: float, combine: Callable[[Op, Op], Op]) -> Op:
    """Return the reduction of all elements to a scalar of the op's dtype."""
    return op.reduce_all(type(op).scalar(op.builder(), start, dtype=op.shape().dtype), combine)


def all_finite(op: Op) -> Op:
    """Return whether all elements are finite. A comparison with NaN is false."""
    return reduced(op.max(-op) < op.scalar_like(inf), True, lambda a, b: a & b)


def non_finite_flags(ops: Sequence[Op]) -> list[Op]:
    """Return a float32 flag that is 1 if any op has a non-finite element, and a vector with the flag of each op."""
    finite = concatenated([all_finite(op) for op in ops])
    every = reduced(finite, True, lambda a, b: a & b)
    return [(op != op.scalar_like(True)).cast("f32") for op in (every, finite)]


def total_norm(ops: Sequence[Op], infinity: bool, grad_scale: Op | None = None) -> Op:
    """Return the norm of all elements of all ops, in float64 if any op is float64, otherwise in float32.

    Sums are in float64, in which a sum of squares of float32 numbers cannot overflow.

    Args:
        ops: The ops whose elements form one vector.
        infinity: Whether the norm is the largest magnitude.
        grad_scale: A scalar by which the norm is divided.
    """
    wide = [op.cast("f64") for op in ops]
    if infinity:  # XLA's maximum ignores NaNs
        largest = _folded([op.max(-op) for op in wide], lambda a, b: a.max(b))
        has_nan = _folded([(op != op).cast("f64") for op in wide], lambda a, b: a.max(b))
        total = (has_nan > has_nan.scalar_like(0)).select(largest.scalar_like(nan), largest)
    else:
        total = _folded([op * op for op in wide], lambda a, b: a + b).sqrt()
    divided = total if grad_scale is None else total / grad_scale.cast("f64")
    return divided.cast("f64" if any(op.shape().dtype == "f64" for op in ops) else "f32")


def _folded(ops: Sequence[Op], combine: Callable[[Op, Op], Op]) -> Op:
    return reduced(concatenated([reduced(op, 0, combine) for op in ops]), 0, combine)
