"""The operators of a gradient scaler for devices without polycast's kernels, with PyTorch's ops and without a sync."""

import math

import torch
from torch import Tensor

from polycast import devices
from polycast._extension import check_arguments
from polycast._operators import in_kernel, library
from polycast.torch_internals import foreach_mul_, foreach_norm, unscale_and_check_, update_amp_scale_


def find_non_finite(tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return 1 if any tensor has a non-finite element, otherwise 0, and a vector with this flag for each tensor."""
    check_arguments("find_non_finite", [tensors], [])
    with in_kernel():
        return _findings(_largest(tensors))


def norm(tensors: list[Tensor], infinity: bool, grad_scale: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the norm of all elements divided by ``grad_scale``, and the results of ``find_non_finite``.

    The norm is in float64 if any tensor is, otherwise in float32.
    """
    check_arguments("norm", [tensors], [grad_scale])
    order = math.inf if infinity else 2.0
    dtype = torch.float64 if any(tensor.dtype is torch.float64 for tensor in tensors) else torch.float32
    # In float64 no sum of squares of narrower numbers overflows.
    sums = torch.float64 if devices.facts_of(tensors[0].device.type).has_float64 else dtype
    with in_kernel():
        norms = _norms(tensors, order, sums)
        total = torch.linalg.vector_norm(norms, order)
        total = (total if grad_scale is None else total / grad_scale.reshape(())).to(dtype)
        return total, *_findings(norms if not infinity and sums is not dtype else _largest(tensors))


def unscale_(grads: list[Tensor], found_inf: Tensor, inv_scale: Tensor) -> Tensor:
    """Multiply the gradients by ``inv_scale``, and set ``found_inf`` to 1 if a gradient is non-finite.

    Returns:
        A float32 vector with an element for each gradient: 1 if the gradient is non-finite, otherwise 0.
    """
    check_arguments("unscale_", [grads], [found_inf, inv_scale])
    with in_kernel():
        found, non_finite = _findings(_largest(grads)) if grads else (found_inf, found_inf.new_zeros(0))
        factor = inv_scale.reshape(())
        for tensors in ([grads[place] for place in places] for places in _by_dtype(grads)):
            if factor.dtype is torch.float64:  # PyTorch's kernel multiplies by a float32 number.
                foreach_mul_(tensors, factor)
            else:
                unscale_and_check_(tensors, found_inf, factor.float())
        found_inf.copy_(torch.maximum(found_inf, found.reshape(found_inf.shape)))
    torch.autograd.graph.increment_version([*grads, found_inf])
    return non_finite


def update_scale_(
    scale: Tensor, growth_tracker: Tensor, found_inf: Tensor, growth_factor: float, backoff_factor: float,
    growth_interval: int, min_scale: float, max_scale: float,
) -> None:  # fmt: skip
    """Lower the scale after an overflow, or raise it after enough steps without one, within the bounds."""
    check_arguments("update_scale_", [], [scale, growth_tracker, found_inf])
    with in_kernel():
        update_amp_scale_(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval)
        scale.clamp_(min_scale, max_scale)
    torch.autograd.graph.increment_version([scale, growth_tracker])


def _by_dtype(tensors: list[Tensor]) -> list[list[int]]:
    """Return the indices of the tensors of each dtype, because PyTorch's kernels require one dtype."""
    dtypes = [tensor.dtype for tensor in tensors]
    return [[place for place, each in enumerate(dtypes) if each is dtype] for dtype in dict.fromkeys(dtypes)]


def _norms(tensors: list[Tensor], order: float, dtype: torch.dtype | None = None) -> Tensor:
    """Return the norm of each tensor, in one vector. The norm of a non-finite tensor is non-finite."""
    norms = dict.fromkeys(range(len(tensors)), tensors[0])
    for places in _by_dtype(tensors):
        filled = [place for place in places if tensors[place].numel()]  # an empty tensor has no maximum
        found = foreach_norm([tensors[place] for place in filled], order, dtype) if filled else ()
        norms.update(zip(filled, found, strict=True))
        norms.update((place, tensors[place].new_zeros(())) for place in places if not tensors[place].numel())
    return torch.stack(list(norms.values()))


def _largest(tensors: list[Tensor]) -> Tensor:
    """Return the largest magnitude of each tensor, or NaN. The maximum of mps, which lacks float64, may ignore NaNs."""
    largest = _norms(tensors, math.inf)
    if devices.facts_of(tensors[0].device.type).has_float64:
        return largest
    sums = _norms(tensors, 1)
    return torch.where(sums.isnan(), sums, largest)


def _findings(norms: Tensor) -> tuple[Tensor, Tensor]:
    """Return 1 if any norm is non-finite, otherwise 0, and a vector with this flag for each norm, in float32."""
    non_finite = torch.ne(norms - norms, 0, out=torch.empty_like(norms, dtype=torch.float32))
    return non_finite.amax(), non_finite


for _function in (find_non_finite, norm, unscale_, update_scale_):
    library.impl(_function.__name__, _function, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
