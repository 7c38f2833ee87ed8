"""The arithmetic of Adam, SGD and the scale in XLA ops, in the order of the for-loop of ``torch.optim``.

Factors that all elements share are computed in float64, like the Python floats of the for-loop. Elements are computed
in float32, or in float64 for float64 parameters, and rounded once at the end.
"""

from dataclasses import dataclass
from typing import NamedTuple

from polycast.xla.ops import Op, all_finite, like, scalar


class Controls(NamedTuple):
    """The one-element inputs of a step, as scalars. The numbers are float64, and ``lr`` is the first of them."""

    numbers: list[Op]
    found_inf: Op | None = None
    grad_scale: Op | None = None
    clip_coef: Op | None = None

    def gradient(self, grad: Op, dtype: str, maximize: bool) -> Op:
        """Return the gradient, unscaled and clipped, and negated to maximize."""
        grad = grad.cast(dtype)
        if self.grad_scale is not None:
            grad = grad / like(self.grad_scale, grad)
        if self.clip_coef is not None:
            grad = grad * like(self.clip_coef, grad)
        return -grad if maximize else grad

    def keep(self, old: Op, new: Op) -> Op:
        """Return the new value in the old one's dtype, or the old value if the step is skipped."""
        new = new.cast(old.shape().dtype)
        if self.found_inf is None:
            return new
        skip = self.found_inf != self.found_inf.scalar_like(0)
        return skip.broadcast(old.shape().sizes).select(old, new)


def compute_dtype(param: Op) -> str:
    """Return the dtype in which the elements of a parameter are computed."""
    return "f64" if param.shape().dtype == "f64" else "f32"


def carried(new: Op, kept: Op) -> Op:
    """Return the value that the parameter's update reads: ``kept``, unless its dtype rounds ``new``.

    If the update read ``new``, XLA would compute ``new`` twice from all its inputs. In a skipped step ``kept`` is the
    old value, but the step discards the update as well.
    """
    return kept if kept.shape().dtype == new.shape().dtype else new


@dataclass(frozen=True)
class Adam:
    """One step of Adam or AdamW. Its numbers are ``lr``, ``beta1``, ``beta2``, ``weight_decay`` and ``eps``."""

    maximize: bool
    weight_decay: bool
    decoupled: bool
    towards_grad: bool
    """Whether to use the formula of ``lerp_`` for a weight (``1 - beta1``) of at least one half."""

    def update(self, controls: Controls, grad: Op, param: Op, *state: Op) -> list[Op]:
        """Return the new parameter, ``exp_avg``, ``exp_avg_sq``, ``max_exp_avg_sq`` (only for AMSGrad) and ``step``."""
        lr, beta1, beta2, weight_decay, eps = controls.numbers
        one = lr.scalar_like(1)
        *moments, step = state
        dtype = compute_dtype(param)
        value, first, second, *maximum = [op.cast(dtype) for op in (param, *moments)]
        grad = controls.gradient(grad, dtype, self.maximize)
        if self.weight_decay and self.decoupled:
            value = value * like(one - lr * weight_decay, value)
        elif self.weight_decay:
            grad = grad + like(weight_decay, grad) * value
        weight = like(one - beta1, grad)
        if self.towards_grad:
            first = grad - (grad - first) * (grad.scalar_like(1) - weight)
        else:
            first = first + weight * (grad - first)
        second = second * like(beta2, grad) + like(one - beta2, grad) * grad * grad
        new = [first, second, *[op.max(second) for op in maximum]]
        kept = [controls.keep(*pair) for pair in zip(moments, new, strict=True)]
        next_step = step + step.scalar_like(1)
        count = next_step.cast(lr.shape().dtype)
        root = like((one - beta2**count).sqrt(), value)
        denominator = carried(new[-1], kept[-1]).sqrt() / root + like(eps, value)
        size = like(-(lr / (one - beta1**count)), value)
        value = value + size * carried(first, kept[0]) / denominator
        return [controls.keep(param, value), *kept, controls.keep(step, next_step)]


@dataclass(frozen=True)
class SGD:
    """One step of SGD. Its numbers are ``lr``, ``weight_decay`` and ``momentum``. A momentum buffer starts as zeros."""

    maximize: bool
    weight_decay: bool
    momentum: bool
    nesterov: bool

    def update(self, controls: Controls, grad: Op, param: Op, *state: Op) -> list[Op]:
        """Return the new parameter and, with momentum, the new ``momentum_buffer``."""
        lr, weight_decay, momentum = controls.numbers
        dtype = compute_dtype(param)
        value = param.cast(dtype)
        grad = controls.gradient(grad, dtype, self.maximize)
        if self.weight_decay:
            grad = grad + like(weight_decay, grad) * value
        kept: list[Op] = []
        if self.momentum:
            (old,) = state
            new = old.cast(dtype) * like(momentum, grad) + grad
            kept = [controls.keep(old, new)]
            buffer = carried(new, kept[0])
            grad = grad + like(momentum, grad) * buffer if self.nesterov else buffer
        return [controls.keep(param, value + like(-lr, grad) * grad), *kept]


def next_scale(ops: list[Op]) -> list[Op]:
    """Return the next scale and growth tracker from the current ones, ``found_inf``, and a vector of the numbers."""
    old, tracker = [scalar(op) for op in ops[:2]]
    growth, backoff, interval, floor, ceiling = [scalar(ops[3], index) for index in range(5)]
    found, wide = scalar(ops[2]) != scalar(ops[2]).scalar_like(0), old.cast("f64")
    following = tracker + tracker.scalar_like(1)
    reached = following.cast("f64") == interval  # PyTorch compares with `==` as well
    grown = (wide * growth).cast(old.shape().dtype)
    raised = all_finite(grown).select(grown.cast("f64").min(ceiling), wide)
    new = found.select((wide * backoff).max(floor), reached.select(raised, wide)).cast(old.shape().dtype)
    count = (found | reached).select(tracker.scalar_like(0), following)
    return [op.reshape(tuple(like_.shape().sizes)) for op, like_ in zip((new, count), ops, strict=False)]
