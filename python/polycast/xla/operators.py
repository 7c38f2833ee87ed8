"""The operators of polycast on XLA. Each call is one computation over all its tensors, without a device sync."""

from collections.abc import Sequence
from itertools import chain, islice
from typing import TypeAlias

from torch import Tensor
from torch.library import Library

from polycast._extension import check_arguments
from polycast.xla.arithmetic import SGD, Adam, Controls, compute_dtype, next_scale
from polycast.xla.computation import call, own_memory, update, upload
from polycast.xla.ops import Op, like, non_finite_flags, scalar, total_norm

Tensors: TypeAlias = list[Tensor]


def register(library: Library) -> None:
    """Register the operators' kernels for XLA in a library. The kernels import ``torch_xla`` when they are called.

    Functionalization wraps all XLA tensors, and raises for operators outside of ATen that write to their arguments.
    Therefore such operators are registered above functionalization, on the autograd key. There they raise for
    fake tensors, which have this key as well.
    """
    for pure in (find_non_finite, norm):
        library.impl(pure.__name__, pure, "XLA")  # type: ignore[no-untyped-call]
    for function in (adam_step_, sgd_step_, unscale_, update_scale_):
        library.impl(function.__name__, function, "AutogradXLA")  # type: ignore[no-untyped-call]


def adam_step_(
    *lists: Tensors, beta1: float, beta2: float, weight_decay: float, eps: float, decoupled_weight_decay: bool,
    maximize: bool, **scalars: Tensor | None,
) -> None:  # fmt: skip
    """Take a step of Adam or AdamW."""
    arithmetic = Adam(maximize, weight_decay != 0, decoupled_weight_decay, beta1 <= 0.5)
    _step("adam_step_", arithmetic, lists, (beta1, beta2, weight_decay, eps), **scalars)  # type: ignore[arg-type]


def sgd_step_(
    *lists: Tensors, weight_decay: float, momentum: float, nesterov: bool, maximize: bool, **scalars: Tensor | None
) -> None:
    """Take a step of SGD."""
    arithmetic = SGD(maximize, weight_decay != 0, bool(lists[2]), nesterov)
    _step("sgd_step_", arithmetic, lists, (weight_decay, momentum), **scalars)  # type: ignore[arg-type]


def _step(
    op: str, arithmetic: Adam | SGD, lists: Sequence[Tensors], numbers: tuple[float, ...],
    *, lr: float, lr_tensor: Tensor | None = None, found_inf: Tensor | None = None, grad_scale: Tensor | None = None,
    clip_coef: Tensor | None = None,
) -> None:  # fmt: skip
    """Update the tensors of all lists except the second one, which has the gradients."""
    optional = {"lr": lr_tensor, "found_inf": found_inf, "grad_scale": grad_scale, "clip_coef": clip_coef}
    check_arguments(op, lists, list(optional.values()))
    tensors = list(filter(len, lists))
    if not tensors:
        return
    if lr_tensor is not None and lr_tensor.is_cpu:
        lr, optional["lr"] = lr_tensor.item(), None
    scalars = {name: tensor for name, tensor in optional.items() if tensor is not None}
    vector = upload((lr, *numbers), tensors[0][0].device, id(tensors[0][0]))
    params, grads, *states = tensors
    rows = list(zip(params, *states, strict=True))
    written = list(chain.from_iterable(rows))

    def build(ops: list[Op]) -> list[Op]:
        count = len(written)
        gradients, (vector, *others) = ops[count : count + len(rows)], ops[count + len(rows) :]
        given = dict(zip(scalars, map(scalar, others), strict=True))
        number, *rest = [scalar(vector, index) for index in range(1 + len(numbers))]
        controls = Controls([given.pop("lr", number).cast("f64"), *rest], **given)
        taken = iter(ops[:count])
        return [op for grad in gradients for op in arithmetic.update(controls, grad, *islice(taken, len(rows[0])))]

    update((arithmetic, *scalars, len(rows)), build, written, [*grads, vector, *scalars.values()])


def find_non_finite(tensors: Tensors) -> tuple[Tensor, Tensor]:
    """Return a float32 flag that is 1 if any tensor is non-finite, and a vector with the flag of each tensor."""
    check_arguments("find_non_finite", [tensors], [])
    found_inf, non_finite = call("find_non_finite", non_finite_flags, tensors)
    return found_inf, non_finite


def norm(tensors: Tensors, infinity: bool, grad_scale: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the norm of all elements divided by ``grad_scale``, and the results of ``find_non_finite``.

    The norm is in float64 if any tensor is, otherwise in float32. The squares of float64 elements can overflow.
    """
    check_arguments("norm", [tensors], [grad_scale])
    divisors = [] if grad_scale is None else [grad_scale]

    def build(ops: list[Op]) -> list[Op]:
        given, scales = ops[: len(tensors)], list(map(scalar, ops[len(tensors) :]))
        return [total_norm(given, infinity, *scales), *non_finite_flags(given)]

    total, found_inf, non_finite = call(("norm", infinity, len(divisors)), build, [*tensors, *divisors])
    return total, found_inf, non_finite


def unscale_(grads: Tensors, found_inf: Tensor, inv_scale: Tensor) -> Tensor:
    """Multiply the gradients by ``inv_scale``, and set ``found_inf`` to 1 if any gradient is non-finite.

    The result is a float32 vector with an element for each gradient: 1 if the gradient is non-finite, otherwise 0.
    """

    def build(ops: list[Op]) -> list[Op]:
        *tensors, found, factor = ops
        wide = [op.cast(compute_dtype(op)) for op in tensors]
        new = [(op * like(scalar(factor), op)).cast(old.shape().dtype) for op, old in zip(wide, tensors, strict=True)]
        any_found, non_finite = non_finite_flags(tensors)
        flag = like(any_found, found)
        return [*new, (flag != flag.scalar_like(0)).select(flag, found), non_finite]

    check_arguments("unscale_", [grads], [found_inf, inv_scale])
    own_memory(grads)
    (non_finite,) = update("unscale", build, [*grads, found_inf], [inv_scale])
    return non_finite


def update_scale_(scale: Tensor, growth_tracker: Tensor, found_inf: Tensor, *numbers: float) -> None:
    """Lower the scale after an overflow, but not below its minimum. Raise it after enough steps, up to its maximum."""
    check_arguments("update_scale_", [], [scale, growth_tracker, found_inf])
    vector = upload(numbers, scale.device)
    update("scale", next_scale, [scale, growth_tracker], [found_inf, vector])
