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


def total_norm(ops: Sequence[Op], norm_type: float, grad_scale: Op | None = None) -> Op:
    """Return the norm of all elements of all ops, in float64 if any op is float64, otherwise in float32.

    Sums are in float64. If they could overflow or underflow, the elements are first divided by the largest magnitude.

    Args:
        ops: The ops whose elements form one vector.
        norm_type: A positive number, or infinity.
        grad_scale: A scalar by which the norm is divided.
    """

    def rounded(total: Op) -> Op:
        return (total if grad_scale is None else total / grad_scale.cast("f64")).cast(dtype)

    dtype = "f64" if any(op.shape().dtype == "f64" for op in ops) else "f32"
    wide = [op.cast("f64") for op in ops]
    sizes = [op.max(-op) for op in wide]
    if dtype == "f32" and norm_type <= _SAFE_NORM:
        return rounded(_norm(sizes, norm_type))
    largest = _folded(sizes, lambda a, b: a.max(b))
    if norm_type == inf:  # XLA's maximum ignores NaNs
        has_nan = _folded([(op != op).cast("f64") for op in ops], lambda a, b: a.max(b))
        return rounded((has_nan > has_nan.scalar_like(0)).select(largest.scalar_like(nan), largest))
    is_divisor = (largest > largest.scalar_like(0)) & (largest < largest.scalar_like(inf))
    divisor = is_divisor.select(largest, largest.scalar_like(1))
    return rounded(_norm([size / like(divisor, size) for size in sizes], norm_type) * divisor)


# The fourth power of a finite float32 value other than 0, even of a subnormal one, is a normal float64 value.
_SAFE_NORM = 4.0


def _norm(sizes: Sequence[Op], norm_type: float) -> Op:
    return _power(_folded([_power(size, norm_type) for size in sizes], lambda a, b: a + b), 1 / norm_type)


def _folded(ops: Sequence[Op], combine: Callable[[Op, Op], Op]) -> Op:
    return reduced(concatenated([reduced(op, 0, combine) for op in ops]), 0, combine)


def _power(op: Op, exponent: float) -> Op:
    if exponent == 0.5:
        return op.sqrt()
    return op * op if exponent == 2 else op if exponent == 1 else op ** op.scalar_like(exponent)
