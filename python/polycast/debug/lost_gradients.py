"""The gradients that underflow to zero in float16."""

from collections.abc import Iterator

import torch
from torch import nn

from polycast._extension import key_of
from polycast.debug.calls import BACKWARD
from polycast.debug.first_nonfinite import NonFinite
from polycast.debug.program_calls import StepCalls
from polycast.debug.tensor_stats import read_numbers

_MOST = 0.5  # a larger share of lost elements is reported


def lost_gradients(step: StepCalls, values: NonFinite, model: nn.Module) -> Iterator[tuple[str, float]]:
    """Yield the parameters most of whose gradient is zero, and not zero if backward runs in float32; and the share."""
    found = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    grads = {name: grad for name, grad in found.items() if grad.layout is torch.strided and grad.numel() > 0}
    backward = [index for index in range(len(step.calls)) if step.phase(index) == BACKWARD]
    if not any(one.dtype is torch.float16 for index in backward for one in step.calls[index].outputs):
        return
    kept = read_numbers([torch.linalg.vector_norm(grad, 0).float() for grad in grads.values()])
    shares = {name: 1 - count / grads[name].numel() for name, count in zip(grads, kept, strict=True)}
    zero = [name for name, share in shares.items() if share > _MOST]
    wide = (values.again(backward, is_wide=True) if zero else None) or {}
    for name in zero:
        in_float32 = wide.get(key_of(grads[name]))
        if in_float32 is not None and ((grads[name] == 0) & (in_float32 != 0)).sum() > _MOST * (in_float32 != 0).sum():
            yield name, shares[name]
