"""The operators of a gradient scaler on every device but the CPU and XLA, and on meta and fake tensors.

They are torch's own operators over lists, whose number does not grow with the gradients. They never sync.
"""

import math

import torch
from torch import Tensor

from polycast._compiled import any_overlap, check_norm, check_tensors, check_unscale, check_update_scale
from polycast._operators import library
from polycast.syncfree.elsewhere import trusts_torch
from polycast.syncfree.joining import Tensors, as_real, joined, parts, write


def find_non_finite(tensors: Tensors) -> tuple[Tensor, Tensor]:
    """Return whether any tensor holds an inf or NaN, and for each tensor whether it does, as 0 or 1 in float32."""
    check_tensors("find_non_finite", tensors)
    with torch._C._AutoDispatchBelowAutograd():
        return _findings(_norms(as_real(tensors), math.inf, _sum_dtype(tensors)))


def norm(tensors: Tensors, norm_type: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the norm of all elements, in float64 if any tensor is, and what ``find_non_finite`` returns.

    Finite elements of any size have a finite norm.
    """
    check_norm(tensors, norm_type)
    dtype = _sum_dtype(tensors)
    with torch._C._AutoDispatchBelowAutograd():
        # In float64 no sum of squares of narrower numbers overflows.
        if norm_type == 2 and dtype is torch.float32 and trusts_torch(tensors[0]):
            norms = _norms(as_real(tensors), 2.0, torch.float64)
            return torch.linalg.vector_norm(norms).to(dtype), *_findings(norms)
        magnitudes = [tensor.abs() if tensor.is_complex() else tensor for tensor in tensors]
        maxima = _norms(magnitudes, math.inf, dtype)
        largest = maxima.amax()
        total = largest if math.isinf(norm_type) else _scaled_norm(magnitudes, norm_type, largest)
        return total, *_findings(maxima)


def unscale_(grads: Tensors, found_inf: Tensor, inv_scale: Tensor) -> Tensor:
    """Multiply the gradients by ``inv_scale``, and set ``found_inf`` where one of them holds an inf or NaN.

    Returns:
        For each gradient whether it does, as 0 or 1 in float32.
    """
    check_unscale(grads, found_inf, inv_scale)
    if not grads:
        return found_inf.new_zeros(0)
    with torch._C._AutoDispatchBelowAutograd():
        tensors, factor = as_real(grads), inv_scale.reshape(())
        found, non_finite = _findings(_norms(tensors, math.inf, _sum_dtype(grads)))
        overlap = any_overlap([grads])
        # Torch's kernel multiplies by a number of float32.
        if trusts_torch(grads[0]) and factor.dtype is not torch.float64 and not overlap:
            torch._amp_foreach_non_finite_check_and_unscale_(tensors, found_inf, factor.to(torch.float32))
        else:
            found_inf.copy_(torch.maximum(found_inf, found))
            for each in [[tensor] for tensor in tensors] if overlap else [tensors]:
                _multiply(each, factor)
    torch.autograd.graph.increment_version([*grads, found_inf])
    return non_finite


def update_scale_(
    scale: Tensor, growth_tracker: Tensor, found_inf: Tensor, growth_factor: float, backoff_factor: float,
    growth_interval: int, min_scale: float, max_scale: float,
) -> None:  # fmt: skip
    """Lower the scale, not below its floor, after an overflow; raise it, not above its ceiling, after enough steps."""
    check_update_scale(scale, growth_tracker, found_inf)
    with torch._C._AutoDispatchBelowAutograd():
        if trusts_torch(scale):
            torch._amp_update_scale_(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval)
            scale.clamp_(min_scale, max_scale)
        else:
            skipped, count = found_inf.reshape(()) != 0, growth_tracker + 1
            grown = (scale * growth_factor).clamp_max(max_scale)
            is_due = (count == growth_interval).reshape(())
            raised = torch.where(is_due & grown.isfinite(), grown, scale)
            scale.copy_(torch.where(skipped, (scale * backoff_factor).clamp_min(min_scale), raised))
            growth_tracker.copy_(torch.where(skipped | is_due, torch.zeros_like(count), count))
    torch.autograd.graph.increment_version([scale, growth_tracker])


def _sum_dtype(tensors: Tensors) -> torch.dtype:
    return torch.float64 if any(tensor.dtype.to_real() is torch.float64 for tensor in tensors) else torch.float32


def _norms(tensors: Tensors, norm_type: float, dtype: torch.dtype) -> Tensor:
    """Return the norm of each tensor, as one vector: NaN or infinite where an element is."""
    norms: dict[int, Tensor] = {}
    # Torch's kernels take lists of one dtype, and no maximum of nothing.
    for own in {tensor.dtype: None for tensor in tensors}:
        places = [place for place, each in enumerate(tensors) if each.dtype is own and each.numel()]
        found = torch._foreach_norm([tensors[place] for place in places], norm_type, dtype) if places else ()
        norms.update(zip(places, found, strict=True))
    zero = tensors[0].new_zeros((), dtype=dtype) if len(norms) < len(tensors) else tensors[0]
    return torch.stack([norms.get(place, zero) for place in range(len(tensors))])


def _findings(norms: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether any norm is not finite, and whether each is, as 0 or 1."""
    non_finite = torch.ne(norms - norms, 0, out=torch.empty_like(norms, dtype=torch.float32))
    return non_finite.amax(), non_finite


def _scaled_norm(tensors: Tensors, norm_type: float, largest: Tensor) -> Tensor:
    """Return the norm, by elements divided by the largest: their powers do not overflow."""
    divisor = torch.where((largest > 0) & largest.isfinite(), largest, torch.ones_like(largest))
    norms = [
        torch.linalg.vector_norm(joined(pieces, dtype) / divisor, norm_type)
        for dtype, _, (pieces,) in parts([tensors], [largest.dtype] * len(tensors))
    ]
    total: Tensor = torch.linalg.vector_norm(torch.stack(norms), norm_type) * divisor
    return total


def _multiply(tensors: Tensors, factor: Tensor) -> None:
    """Multiply in place, those of 16 bits in float32: rounded to their dtype, the factor may be another one, or 0."""
    narrow = [tensor for tensor in tensors if tensor.itemsize == 2]
    for dtype, _, (pieces,) in parts([narrow], [torch.float32] * len(narrow)):
        write(pieces, joined(pieces, dtype) * factor.to(dtype))
    for dtype in (torch.float32, torch.float64):
        wide = [tensor for tensor in tensors if tensor.dtype is dtype]
        if wide:
            torch._foreach_mul_(wide, factor.to(dtype))


for _function in (find_non_finite, norm, unscale_, update_scale_):
    library.impl(_function.__name__, _function, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
