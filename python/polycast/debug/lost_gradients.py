"""The gradients that underflow to zero in float16."""

from collections import Counter
from collections.abc import Iterable, Iterator

import torch
from torch import nn

from polycast.debug.calls import BACKWARD
from polycast.debug.first_nonfinite import NonFinite, outputs
from polycast.debug.program_calls import StepCalls
from polycast.debug.tensor_stats import read_numbers

_MOST = 0.5  # a larger share of lost elements is reported
_STEPS = 3  # steps in which most of it is lost, before it is reported
_DEPTH = 400  # how many calls before a gradient are looked at


class LostGradients:
    """The parameters whose gradients underflow, with the number of steps in which they did."""

    def __init__(self) -> None:
        self._steps: Counter[str] = Counter()

    def add(self, step: StepCalls, values: NonFinite, model: nn.Module) -> Iterator[tuple[str, float]]:
        """Look at the gradients of a step; yield the parameters that have lost theirs in several steps by now."""
        found = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
        grads = {name: grad for name, grad in found.items() if grad.layout is torch.strided and grad.numel() > 0}
        kept = read_numbers([torch.linalg.vector_norm(grad, 0).float() for grad in grads.values()])
        shares = {name: 1 - count / grads[name].numel() for name, count in zip(grads, kept, strict=True)}
        zero = [name for name, share in shares.items() if share > _MOST]
        lossy = set(_lossy(step, values)) if zero else set()
        for name in zero if lossy else ():
            makers = [index for index in range(len(step.calls)) if step.makes(index, grads[name])]
            if not lossy.isdisjoint(step.before(makers, _DEPTH)):
                self._steps[name] += 1
                if self._steps[name] == _STEPS:
                    yield name, shares[name]


def _lossy(step: StepCalls, values: NonFinite) -> Iterable[int]:
    """Yield the calls in backward that lose most of their result in float16."""
    for index, call in enumerate(step.calls):
        if step.phase(index) == BACKWARD and any(one.dtype is torch.float16 for one in call.outputs):
            here, wide = values.again([index]), values.again([index], is_wide=True)
            if here is not None and wide is not None:
                pairs = zip(outputs(step, here, [index]), outputs(step, wide, [index]), strict=True)
                if any(((one == 0) & (two != 0)).sum() > _MOST * (two != 0).sum() for one, two in pairs if two.any()):
                    yield index
