"""The steps of SGD and Adam on XLA. Each call is one computation over all its tensors, and never syncs."""

from collections.abc import Sequence
from itertools import chain, islice

from torch import Tensor

from polycast._compiled import check_arguments
from polycast.backends.xla import TYPE
from polycast.backends.xla_kernels.arithmetic import SGD, Adam, Controls, Given
from polycast.backends.xla_kernels.computation import on_device, update, upload
from polycast.backends.xla_kernels.ops import Op


def _step(
    arithmetic: Adam | SGD,
    lists: Sequence[Sequence[Tensor]],
    numbers: tuple[float, ...],
    lr: Tensor,
    found_inf: Tensor | None,
    grad_scale: Tensor | None,
    clip_coef: Tensor | None,
) -> None:
    """Update the tensors of all lists, except the second list: it holds the gradients, which are only read."""
    tensors = list(filter(len, lists))
    if not tensors:
        return
    device = tensors[0][0].device
    given = Given(lr.device.type == TYPE, found_inf is not None, grad_scale is not None, clip_coef is not None)
    vector = upload((0.0 if given.lr else float(lr.item()), *numbers), device, id(tensors[0][0]))
    scalars = on_device(device, lr if given.lr else None, found_inf, grad_scale, clip_coef)
    params, grads, *states = tensors
    rows = list(zip(params, *states, strict=True))
    written = list(chain.from_iterable(rows))

    def build(ops: list[Op]) -> list[Op]:
        count = len(written)
        gradients, controls = ops[count : count + len(rows)], Controls.read(given, ops[count + len(rows) :])
        taken = iter(ops[:count])
        return [op for grad in gradients for op in arithmetic.update(controls, grad, *islice(taken, len(rows[0])))]

    update((arithmetic, given, len(rows)), build, written, [*grads, vector, *scalars])


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
    lists = [params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps]
    check_arguments("adam_step_", lists, [lr, found_inf, grad_scale, clip_coef])
    arithmetic = Adam(maximize, weight_decay != 0, decoupled_weight_decay, beta1 <= 0.5)
    _step(arithmetic, lists, (beta1, beta2, weight_decay, eps), lr, found_inf, grad_scale, clip_coef)


def sgd_step_(
    params: list[Tensor],
    grads: list[Tensor],
    momentum_buffers: list[Tensor],
    *,
    lr: Tensor,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    maximize: bool,
    found_inf: Tensor | None = None,
    grad_scale: Tensor | None = None,
    clip_coef: Tensor | None = None,
) -> None:
    """Take a step of SGD."""
    lists = [params, grads, momentum_buffers]
    check_arguments("sgd_step_", lists, [lr, found_inf, grad_scale, clip_coef])
    arithmetic = SGD(maximize, weight_decay != 0, bool(momentum_buffers), nesterov)
    _step(arithmetic, lists, (weight_decay, momentum), lr, found_inf, grad_scale, clip_coef)
