"""The steps of Adam and SGD with PyTorch's fused kernels, on devices where they skip and unscale, such as cuda.

The kernels skip if ``found_inf`` is 1, have one divisor, and write the divided gradients back. They require lists of
one dtype and one layout, so a step copies other tensors. Meta and fake tensors have no values, so a step only
increments their versions.

Status: tested with tensors on the CPU, and with fake tensors of cuda. No accelerator has run these steps yet.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeAlias

import torch
from torch import Tensor

from polycast._extension import check_arguments
from polycast._operators import in_kernel, library
from polycast.torch_internals import (
    foreach_add_,
    foreach_copy_,
    foreach_div,
    foreach_sub_,
    fused_adam_,
    fused_adamw_,
    fused_sgd_,
)

Tensors: TypeAlias = list[Tensor]
# Copies of this many elements occupy a device for longer than a kernel takes to launch, and need little memory.
LIMIT = 1 << 22


def adam_step_(*lists: Tensors, decoupled_weight_decay: bool, **options: Any) -> None:
    """Take a step of Adam or AdamW. This is the kernel of the operator ``polycast::adam_step_``."""
    fused: Callable[..., None] = fused_adamw_ if decoupled_weight_decay else fused_adam_

    def update(*lists: Tensors, found_inf: Tensor | None, **options: Any) -> None:
        # The kernel requires the number of this step. The subtraction below undoes the count of a skipped step.
        foreach_add_(lists[5], 1)
        fused(*lists, amsgrad=bool(lists[4]), found_inf=found_inf, **options)
        if found_inf is not None:
            foreach_sub_(lists[5], [found_inf] * len(lists[5]))

    _step("adam_step_", update, lists[:5], lists[5:], **options)


def sgd_step_(*lists: Tensors, **options: Any) -> None:
    """Take a step of SGD. This is the kernel of the operator ``polycast::sgd_step_``."""
    fused: Callable[..., None] = fused_sgd_
    _step("sgd_step_", fused, lists, (), dampening=0.0, is_first_step=False, **options)


def _step(
    op: str, update: Callable[..., None], lists: tuple[Tensors, ...], counters: tuple[Tensors, ...],
    *, lr: float, lr_tensor: Tensor | None = None, found_inf: Tensor | None = None, grad_scale: Tensor | None = None,
    clip_coef: Tensor | None = None, **options: Any,
) -> None:  # fmt: skip
    check_arguments(op, [*lists, *counters], [lr_tensor, found_inf, grad_scale, clip_coef])
    params, scalars = lists[0], (grad_scale, clip_coef)
    has_values = bool(params) and not params[0].is_meta and not hasattr(params[0], "fake_device")
    with in_kernel():
        divisor = _divisor(*scalars, torch.float32)
        skip = None if found_inf is None else torch.ne(found_inf, 0, out=torch.empty_like(found_inf)).reshape(())
        for (dtype, fits, _), places in (_chunks(lists) if has_values else {}).items():
            originals = [[tensors[place] for place in places] if tensors else [] for tensors in lists]
            taken = originals if fits else [_alike(originals[0], tensors, dtype) for tensors in originals]
            given, wide = divisor, _divisor(*scalars, dtype) if dtype is torch.float64 else None
            if wide is not None:  # PyTorch's kernels divide by a float32 number.
                taken, given = [taken[0], list(foreach_div(taken[1], wide)), *taken[2:]], None
            update(
                *taken, *([each[place] for place in places] for each in counters), grad_scale=given, found_inf=skip,
                lr=lr if lr_tensor is None else lr_tensor.item() if lr_tensor.is_cpu else lr_tensor.reshape(()).float(),
                **options,
            )  # fmt: skip
            for original, copies in zip([originals[0], *originals[2:]], [taken[0], *taken[2:]], strict=True):
                if copies is not original:
                    foreach_copy_(original, copies)
    is_divided = any(scalar is not None for scalar in scalars)
    torch.autograd.graph.increment_version(chain(params, *lists[2:], *counters, lists[1] if is_divided else ()))


def _divisor(grad_scale: Tensor | None, clip_coef: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    scale, coef = (None if each is None else each.reshape(()).to(dtype) for each in (grad_scale, clip_coef))
    return scale if coef is None else coef.reciprocal() if scale is None else scale / coef


def _chunks(lists: tuple[Tensors, ...]) -> dict[tuple[torch.dtype, bool, int], list[int]]:
    """Return the indices of the tensors of each call. A call has tensors of one dtype, and copies all or none."""
    chunks: dict[tuple[torch.dtype, bool, int], list[int]] = {}
    copied = 0
    for place, row in enumerate(zip(*filter(len, lists), strict=True)):
        formats = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)
        is_dense = any(row[0].is_contiguous(memory_format=layout) for layout in formats)
        fits = is_dense and _are_alike(row)
        wide = torch.float64 if any(each.dtype is torch.float64 for each in row) else torch.float32
        copied += 0 if fits else row[0].numel()
        chunks.setdefault((row[0].dtype if fits else wide, fits, 0 if fits else copied // LIMIT), []).append(place)
    return chunks


def _are_alike(tensors: Sequence[Tensor]) -> bool:
    """Return whether tensors of one shape have the same dtype, and the same strides except in dimensions of size 1."""
    if len({(each.dtype, each.stride()) for each in tensors}) == 1:
        return True
    long = [dim for dim, size in enumerate(tensors[0].shape) if size != 1]
    return len({(each.dtype, *map(each.stride, long)) for each in tensors}) == 1


def _alike(params: Tensors, tensors: Tensors, dtype: torch.dtype) -> Tensors:
    """Return tensors with the dtype and layout that PyTorch's kernels require: the given ones or copies."""
    copies = [torch.empty_like(param, dtype=dtype) for param in params[: len(tensors)]]
    if all(map(_are_alike, zip(tensors, copies, strict=True))):
        return tensors
    foreach_copy_(copies, tensors)
    return copies


for _function in (adam_step_, sgd_step_):
    library.impl(_function.__name__, _function, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
