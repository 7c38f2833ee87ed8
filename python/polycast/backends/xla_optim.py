"""The optimizers' operators on XLA: each call is one computation over all its tensors, and no value is read back."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import ParamSpec

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.library import Library

from polycast.backends.xla import TYPE
from polycast.backends.xla_arithmetic import SGD, Adam, Controls, Given, compute_dtype
from polycast.backends.xla_computation import (
    Op,
    all_finite,
    call,
    constant,
    like,
    non_finite_flags,
    on_device,
    scalar,
    total_norm,
    update,
    upload,
)

P = ParamSpec("P")


def _step(
    rule: Adam | SGD,
    tensors: Sequence[Sequence[Tensor]],
    numbers: tuple[float, ...],
    lr: Tensor,
    found_inf: Tensor | None,
    grad_scale: Tensor | None,
    clip_coef: Tensor | None,
) -> None:
    """Update the lists of tensors by the rule; the second holds the gradients, which are only read."""
    device = tensors[0][0].device
    tensor_lr = lr if lr.device.type == TYPE else None
    options = (tensor_lr, found_inf, grad_scale, clip_coef)
    given = Given(*[option is not None for option in options])
    vector = upload((0.0 if given.lr else float(lr.item()), *numbers), device)
    scalars = [vector, *[on_device(option, device) for option in options if option is not None]]
    params, grads, *states = map(_real, tensors) if any(map(torch.is_complex, tensors[0])) else tensors
    rows = list(zip(params, *states, strict=True))
    written = [tensor for row in rows for tensor in row]

    def build(ops: list[Op]) -> list[Op]:
        count = len(written)
        gradients, controls = ops[count : count + len(rows)], Controls.read(given, ops[count + len(rows) :])
        taken = iter(ops[:count])
        return [op for grad in gradients for op in rule.update(controls, grad, *islice(taken, len(rows[0])))]

    update((rule, given, len(rows)), build, written, [*grads, *scalars])


def _real(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor for tensor in tensors]


def adam_step_(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    steps: list[Tensor],
    *,
    lr: Tensor,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    decoupled_weight_decay: bool,
    maximize: bool,
    found_inf: Tensor | None = None,
    grad_scale: Tensor | None = None,
    clip_coef: Tensor | None = None,
) -> None:
    """Take a step of Adam or AdamW."""
    rule = Adam(maximize, weight_decay != 0, decoupled_weight_decay, beta1 <= 0.5)
    columns = [column for column in (params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps) if column]
    if columns:
        _step(rule, columns, (beta1, beta2, weight_decay, eps), lr, found_inf, grad_scale, clip_coef)


def sgd_step_(
    params: list[Tensor],
    grads: list[Tensor],
    momentum_buffers: list[Tensor],
    momentum_started: list[Tensor],
    *,
    lr: Tensor,
    weight_decay: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    found_inf: Tensor | None = None,
    grad_scale: Tensor | None = None,
    clip_coef: Tensor | None = None,
) -> None:
    """Take a step of SGD."""
    rule = SGD(maximize, weight_decay != 0, bool(momentum_buffers), nesterov)
    columns = [params, grads, *[column for column in (momentum_buffers, momentum_started) if column]]
    if params:
        _step(rule, columns, (weight_decay, momentum, dampening), lr, found_inf, grad_scale, clip_coef)


def check(tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return whether any tensor holds an inf or NaN, as 0 or 1 in float32, and for each tensor whether it does."""
    found_inf, non_finite = call("check", non_finite_flags, _real(tensors))
    return found_inf, non_finite


def norm(tensors: list[Tensor], norm_type: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the norm of all tensors as one vector, in float32, and what ``check`` returns.

    Sums are in float64: finite gradients of any size have the norm that they have.
    """

    def build(ops: list[Op]) -> list[Op]:
        return [total_norm(ops, norm_type), *non_finite_flags(ops)]

    total, found_inf, non_finite = call(("norm", norm_type), build, _real(tensors))
    return total, found_inf, non_finite


def unscale_(grads: list[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    """Multiply the gradients by ``inv_scale``, and set ``found_inf`` where one of them holds an inf or NaN."""

    def build(ops: list[Op]) -> list[Op]:
        *tensors, found, factor = ops
        wide = [op.cast(compute_dtype(op)) for op in tensors]
        new = [(op * like(scalar(factor), op)).cast(old.shape().dtype) for op, old in zip(wide, tensors, strict=True)]
        flag = like(non_finite_flags(tensors)[0], found)
        return [*new, (flag != constant(flag, 0)).select(flag, found)]

    if grads:
        update("unscale", build, [*_real(grads), found_inf], [on_device(inv_scale, grads[0].device)])


def update_scale_(
    scale: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    growth_factor: float,
    backoff_factor: float,
    growth_interval: int,
    min_scale: float,
    max_scale: float,
) -> None:
    """Lower the scale, not below its floor, after an overflow; raise it, not above its ceiling, after enough steps."""
    numbers = upload((growth_factor, backoff_factor, growth_interval, min_scale, max_scale), scale.device)
    update("scale", _next_scale, [scale, growth_tracker], [on_device(found_inf, scale.device), numbers])


def _next_scale(ops: list[Op]) -> list[Op]:
    old, tracker = [scalar(op) for op in ops[:2]]
    growth, backoff, interval, floor, ceiling = [scalar(ops[3], index) for index in range(5)]
    found, wide = scalar(ops[2]) != constant(scalar(ops[2]), 0), old.cast("f64")
    following = tracker + constant(tracker, 1)
    reached = following.cast("f64") >= interval
    grown = (wide * growth).cast(old.shape().dtype)
    raised = all_finite(grown).select(grown.cast("f64").min(ceiling), wide)
    new = found.select((wide * backoff).max(floor), reached.select(raised, wide)).cast(old.shape().dtype)
    count = (found | reached).select(constant(tracker, 0), following)
    return [op.reshape(tuple(like_.shape().sizes)) for op, like_ in zip((new, count), ops, strict=False)]


def register() -> Library:
    """Register the operators with torch's dispatcher, for as long as the returned library lives.

    Tensors on XLA are wrapped for functionalization, which refuses an operator that writes and is not ATen's. So these
    are registered above it, on autograd's key; fake tensors have that key too, and are passed on.
    """
    library = Library("polycast", "IMPL")  # type: ignore[no-untyped-call]
    pure: Callable[..., tuple[Tensor, ...]]
    for pure in (check, norm):
        library.impl(pure.__name__, pure, "XLA")  # type: ignore[no-untyped-call]
    for writing in (adam_step_, sgd_step_, unscale_, update_scale_):
        library.impl(writing.__name__, _unless_fake(writing), "AutogradXLA")  # type: ignore[no-untyped-call]
    return library


def _unless_fake(function: Callable[P, None]) -> Callable[P, None]:
    packet = getattr(torch.ops.polycast, function.__name__)

    def kernel(*args: P.args, **kwargs: P.kwargs) -> None:
        first = args[0][0] if isinstance(args[0], list) and args[0] else args[0]
        if isinstance(first, FakeTensor):
            with torch._C._AutoDispatchBelowAutograd():
                packet(*args, **kwargs)
        else:
            function(*args, **kwargs)

    return kernel
