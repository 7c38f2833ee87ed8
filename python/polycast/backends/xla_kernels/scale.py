"""The gradient scaler's operators on XLA. Each call is one computation over all its tensors, and never syncs."""

from torch import Tensor

from polycast._compiled import check_arguments, check_norm_type, own_memory
from polycast.backends.xla_kernels.arithmetic import compute_dtype
from polycast.backends.xla_kernels.computation import call, on_device, update, upload
from polycast.backends.xla_kernels.ops import Op, all_finite, constant, like, non_finite_flags, scalar, total_norm


def find_non_finite(tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return whether any tensor holds an inf or NaN, and a vector with the same of each, as 0 or 1 in float32."""
    check_arguments("find_non_finite", [tensors], [])
    found_inf, non_finite = call("find_non_finite", non_finite_flags, tensors)
    return found_inf, non_finite


def norm(tensors: list[Tensor], norm_type: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the norm of all tensors as one vector, in float64 if any of them is, and the results of find_non_finite.

    The norm does not overflow if its value is finite.

    Raises:
        ValueError: ``norm_type`` is not positive.
    """
    check_arguments("norm", [tensors], [])
    check_norm_type(norm_type)

    def build(ops: list[Op]) -> list[Op]:
        return [total_norm(ops, norm_type), *non_finite_flags(ops)]

    total, found_inf, non_finite = call(("norm", norm_type), build, tensors)
    return total, found_inf, non_finite


def unscale_(grads: list[Tensor], found_inf: Tensor, inv_scale: Tensor) -> Tensor:
    """Multiply the gradients by ``inv_scale``, and set ``found_inf`` to 1 if one of them holds an inf or NaN.

    Returns:
        Whether each gradient does, as 0 or 1 in float32.
    """

    def build(ops: list[Op]) -> list[Op]:
        *tensors, found, factor = ops
        wide = [op.cast(compute_dtype(op)) for op in tensors]
        new = [(op * like(scalar(factor), op)).cast(old.shape().dtype) for op, old in zip(wide, tensors, strict=True)]
        any_found, non_finite = non_finite_flags(tensors)
        flag = like(any_found, found)
        return [*new, (flag != constant(flag, 0)).select(flag, found), non_finite]

    check_arguments("unscale_", [grads], [found_inf, inv_scale])
    own_memory(grads)
    (non_finite,) = update("unscale", build, [*grads, found_inf], on_device(found_inf.device, inv_scale))
    return non_finite


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
    """Lower the scale after an overflow, but not below its minimum. Raise it after enough steps, up to its maximum."""
    check_arguments("update_scale_", [], [scale, growth_tracker, found_inf])
    numbers = upload((growth_factor, backoff_factor, growth_interval, min_scale, max_scale), scale.device)
    update("scale", _next_scale, [scale, growth_tracker], [*on_device(scale.device, found_inf), numbers])


def _next_scale(ops: list[Op]) -> list[Op]:
    old, tracker = [scalar(op) for op in ops[:2]]
    growth, backoff, interval, floor, ceiling = [scalar(ops[3], index) for index in range(5)]
    found, wide = scalar(ops[2]) != constant(scalar(ops[2]), 0), old.cast("f64")
    following = tracker + constant(tracker, 1)
    reached = following.cast("f64") == interval  # torch compares with ==, too
    grown = (wide * growth).cast(old.shape().dtype)
    raised = all_finite(grown).select(grown.cast("f64").min(ceiling), wide)
    new = found.select((wide * backoff).max(floor), reached.select(raised, wide)).cast(old.shape().dtype)
    count = (found | reached).select(constant(tracker, 0), following)
    return [op.reshape(tuple(like_.shape().sizes)) for op, like_ in zip((new, count), ops, strict=False)]
