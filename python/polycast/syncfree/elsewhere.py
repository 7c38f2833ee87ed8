"""The steps of Adam and SGD on every device but the CPU and XLA, and on meta and fake tensors.

Torch's fused kernels take the step where they are known to skip and to unscale. Elsewhere it is plain ATen ops: small
parameters are joined into one tensor, so the number of ops does not grow with them. It never syncs: a
skipped step writes the old values.

Status: tested with tensors of the CPU and of the tests' PrivateUse1 device, and with fake ones of cuda, xpu and mps.
No accelerator has run it yet.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polycast import backends
from polycast._compiled import any_overlap, check_adam_step, check_sgd_step
from polycast._operators import library
from polycast.syncfree.joining import Tensors, as_real, chunks, joined, numel, parts, write
from polycast.syncfree.unusual import is_opaque


class Scalars(NamedTuple):
    """What every step takes beside its lists and options."""

    lr: Tensor
    maximize: bool
    found_inf: Tensor | None
    grad_scale: Tensor | None
    clip_coef: Tensor | None


@dataclass(frozen=True)
class Adam:
    """Adam and AdamW over params, grads, exp_avgs, exp_avg_sqs and, with amsgrad, max_exp_avg_sqs."""

    beta1: float
    beta2: float
    weight_decay: float
    eps: float
    decoupled: bool

    def can_fuse(self, params: Tensors, steps: Tensors) -> bool:  # noqa: ARG002
        return all(step.dtype is torch.float32 for step in steps)  # torch's kernel reads no other dtype

    def fused(self, lists: list[Tensors], steps: Tensors, found_inf: Tensor | None, **scalars: Any) -> None:
        """Step by torch's kernel, which takes the number of this step. A skipped step is not counted."""
        params, grads, exp_avgs, exp_avg_sqs, *maxima = lists
        torch._foreach_add_(steps, 1)
        (torch._fused_adamw_ if self.decoupled else torch._fused_adam_)(
            params, grads, exp_avgs, exp_avg_sqs, maxima[0] if maxima else [], steps, amsgrad=bool(maxima),
            beta1=self.beta1, beta2=self.beta2, weight_decay=self.weight_decay, eps=self.eps, found_inf=found_inf,
            **scalars,
        )  # fmt: skip
        if found_inf is not None:
            torch._foreach_sub_(steps, [found_inf.reshape(())] * len(steps))

    def count(self, steps: Tensor) -> Tensor:
        return steps + 1

    def constants(self, lr: Tensor, steps: Tensor) -> Tensors:
        """Return the step size and eps of each parameter, with the bias corrections."""
        first, second = (_bias_correction(beta, self.count(steps)) for beta in (self.beta1, self.beta2))
        return [lr / first * second.sqrt(), second.sqrt() * self.eps]

    def update(self, lr: Tensor, constants: Tensors, param: Tensor, grad: Tensor, *state: Tensor) -> Tensors:
        """Return the new values of the parameter and of its state, as torch.optim computes them."""
        exp_avg, exp_avg_sq, *maximum = state
        step_size, eps = constants
        if self.weight_decay and self.decoupled:
            param = param * (1 - lr * self.weight_decay)
        elif self.weight_decay:
            grad = grad + param * self.weight_decay
        if self.beta1 > 0.5:  # from the nearer end, as torch.lerp: exact where beta1 is 0 or 1
            exp_avg = exp_avg + (grad - exp_avg) * (1 - self.beta1)
        else:
            exp_avg = grad - (grad - exp_avg) * self.beta1
        exp_avg_sq = exp_avg_sq * self.beta2 + grad * (1 - self.beta2) * grad
        maximum = [torch.maximum(old, exp_avg_sq) for old in maximum]
        denominator = (maximum[0] if maximum else exp_avg_sq).sqrt() + eps
        return [param - exp_avg / denominator * step_size, exp_avg, exp_avg_sq, *maximum]


def _bias_correction(beta: float, steps: Tensor) -> Tensor:
    # In float32, 1 - beta ** step loses its digits at the first steps.
    return -torch.expm1(steps * math.log(beta)) if beta else torch.ones_like(steps)


@dataclass(frozen=True)
class SGD:
    """SGD over params, grads and, with momentum, momentum_buffers."""

    weight_decay: float
    momentum: float
    dampening: float
    nesterov: bool

    def can_fuse(self, params: Tensors, started: Tensors) -> bool:
        # Torch's kernel dampens the first gradient, too. It has none for fake tensors.
        return not (started and self.dampening) and not _is_fake(params[0])

    def fused(self, lists: list[Tensors], started: Tensors, found_inf: Tensor | None, **scalars: Any) -> None:
        """Step by torch's kernel. A momentum buffer of zeros takes the first gradient as it is."""
        params, grads, *buffers = lists
        torch._fused_sgd_(
            params, grads, buffers[0] if buffers else [], weight_decay=self.weight_decay, momentum=self.momentum,
            dampening=self.dampening, nesterov=self.nesterov, is_first_step=False, found_inf=found_inf, **scalars,
        )  # fmt: skip
        if started and found_inf is None:
            torch._foreach_maximum_(started, 1.0)
        elif started and found_inf is not None:
            torch._foreach_maximum_(started, [1 - found_inf.reshape(())] * len(started))

    def count(self, started: Tensor) -> Tensor:
        return torch.ones_like(started)

    def constants(self, lr: Tensor, started: Tensor) -> Tensors:  # noqa: ARG002
        """Return the share of each gradient that its momentum buffer takes: all of the first one."""
        whole = torch.ones_like(started)
        return [torch.where(started != 0, whole * (1 - self.dampening), whole)]

    def update(self, lr: Tensor, constants: Tensors, param: Tensor, grad: Tensor, *state: Tensor) -> Tensors:
        """Return the new values of the parameter and of its state, as torch.optim computes them."""
        share = constants[0] if constants else 1 - self.dampening
        if self.weight_decay:
            grad = grad + param * self.weight_decay
        buffers = [old * self.momentum + grad * share for old in state]
        if buffers:
            grad = grad + buffers[0] * self.momentum if self.nesterov else buffers[0]
        return [param - grad * lr, *buffers]


def adam_step_(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, max_exp_avg_sqs: Tensors, steps: Tensors,
    *, lr: Tensor, beta1: float, beta2: float, weight_decay: float, eps: float, decoupled_weight_decay: bool,
    maximize: bool, found_inf: Tensor | None = None, grad_scale: Tensor | None = None, clip_coef: Tensor | None = None,
) -> None:  # fmt: skip
    """Take a step of Adam or AdamW: the operator ``polycast::adam_step_``."""
    lists = [params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs]
    check_adam_step([*lists, steps], lr, found_inf, grad_scale, clip_coef)
    rule = Adam(beta1, beta2, weight_decay, eps, decoupled_weight_decay)
    _step(rule, lists, steps, Scalars(lr, maximize, found_inf, grad_scale, clip_coef))


def sgd_step_(
    params: Tensors, grads: Tensors, momentum_buffers: Tensors, momentum_started: Tensors, *, lr: Tensor,
    weight_decay: float, momentum: float, dampening: float, nesterov: bool, maximize: bool,
    found_inf: Tensor | None = None, grad_scale: Tensor | None = None, clip_coef: Tensor | None = None,
) -> None:  # fmt: skip
    """Take a step of SGD: the operator ``polycast::sgd_step_``."""
    lists = [params, grads, momentum_buffers]
    check_sgd_step([*lists, momentum_started], lr, found_inf, grad_scale, clip_coef)
    rule = SGD(weight_decay, momentum, dampening, nesterov)
    _step(rule, lists, momentum_started, Scalars(lr, maximize, found_inf, grad_scale, clip_coef))


def _step(rule: Adam | SGD, lists: list[Tensors], counters: Tensors, scalars: Scalars) -> None:
    params, written = lists[0], [lists[0], *lists[2:], counters]
    if not params:
        return
    with torch._C._AutoDispatchBelowAutograd():
        reals = [as_real(tensors) for tensors in lists if tensors]
        dtypes = [_widest(tensors) for tensors in zip(*reals, strict=True)]
        divides = scalars.grad_scale is not None or scalars.clip_coef is not None
        # Overlapping parameters see each other's new values. A class of tensors may know ATen's ops alone.
        if any_overlap([*lists, counters]) or any(map(is_opaque, chain.from_iterable(lists))):
            for place in range(len(params)):
                one = slice(place, place + 1)
                _step_plain(rule, [tensors[one] for tensors in reals], dtypes[one], counters[one], scalars)
        # Torch's kernels divide by a number of float32.
        elif trusts_torch(params[0]) and rule.can_fuse(params, counters) and not (divides and torch.float64 in dtypes):
            _step_fused(rule, reals, dtypes, counters, scalars)
            written += [lists[1]] if divides else []
        else:
            _step_plain(rule, reals, dtypes, counters, scalars)
    torch.autograd.graph.increment_version(chain.from_iterable(written))


def _step_plain(
    rule: Adam | SGD, lists: list[Tensors], dtypes: list[torch.dtype], counters: Tensors, scalars: Scalars
) -> None:
    lr, skip = scalars.lr.reshape(()), None if scalars.found_inf is None else scalars.found_inf.reshape(()) != 0

    def choose(before: Tensor, after: Tensor) -> Tensor:
        return after if skip is None else torch.where(skip, before, after)

    counters = [counter.reshape(()) for counter in counters]
    counts = torch.stack(counters) if counters else lr
    constants = {each: rule.constants(lr.to(each), counts.to(each)) if counters else [] for each in set(dtypes)}
    for dtype, places, pieces in parts(lists, dtypes):
        param, grad, *state = (joined(tensors, dtype) for tensors in pieces)
        spread = [_spread(numbers, places, pieces[0]) for numbers in constants[dtype]]
        new = rule.update(lr.to(dtype), spread, param, _gradient(grad, scalars), *state)
        for tensors, before, after in zip([pieces[0], *pieces[2:]], [param, *state], new, strict=True):
            write(tensors, choose(before, after))
    if counters:
        torch._foreach_copy_(counters, choose(counts, rule.count(counts)).unbind())


def _gradient(grad: Tensor, scalars: Scalars) -> Tensor:
    """Return the gradient unscaled, clipped and, to maximize, negated."""
    if scalars.grad_scale is not None:
        grad = grad / scalars.grad_scale.reshape(()).to(grad.dtype)
    if scalars.clip_coef is not None:
        grad = grad * scalars.clip_coef.reshape(()).to(grad.dtype)
    return -grad if scalars.maximize else grad


def _spread(numbers: Tensor, places: list[int], tensors: Tensors) -> Tensor:
    """Return for each element of joined tensors the number of its parameter."""
    taken = numbers.unbind()
    if len(tensors) == 1:
        return taken[places[0]]
    return torch.cat([taken[place].expand(tensor.numel()) for place, tensor in zip(places, tensors, strict=True)])


def _step_fused(
    rule: Adam | SGD, lists: list[Tensors], dtypes: list[torch.dtype], counters: Tensors, scalars: Scalars
) -> None:
    """Step by torch's kernels. They take lists of one dtype whose tensors lie alike: others are copied.

    They skip where found_inf is 1, take one divisor, and write the divided gradients back.
    """
    lr, found_inf = scalars.lr, scalars.found_inf
    if found_inf is not None:
        found_inf = torch.ne(found_inf, 0, out=torch.empty_like(found_inf))
    divisor = _divisor(scalars)
    number = 0.0 if _is_fake(lr) else lr.item() if lr.is_cpu else lr.reshape(()).to(torch.float32)
    fits = [_fits(tensors) for tensors in zip(*lists, strict=True)]
    kinds = [(lists[0][place].dtype if fit else dtypes[place], fit) for place, fit in enumerate(fits)]
    sizes = [0 if fit else numel(param) for param, fit in zip(lists[0], fits, strict=True)]
    for places in chunks(kinds, sizes):
        originals = [[tensors[place] for place in places] for tensors in lists]
        taken = [_laid_out(originals[0], tensors, kinds[places[0]][0]) for tensors in originals]
        rule.fused(
            taken, [counters[place] for place in places] if counters else [], lr=number, maximize=scalars.maximize,
            grad_scale=divisor, found_inf=found_inf,
        )  # fmt: skip
        for original, copies in zip([originals[0], *originals[2:]], [taken[0], *taken[2:]], strict=True):
            if copies is not original:
                torch._foreach_copy_(original, copies)


def _divisor(scalars: Scalars) -> Tensor | None:
    scale, coef = (
        None if each is None else each.reshape(()).to(torch.float32) for each in (scalars.grad_scale, scalars.clip_coef)
    )
    if coef is None:
        return scale
    return coef.reciprocal() if scale is None else scale / coef


def _fits(tensors: Sequence[Tensor]) -> bool:
    """Return whether torch's kernels take a parameter and what belongs to it as they are."""
    return all(_lies_like(tensors[0], each) and each.dtype is tensors[0].dtype for each in tensors)


def _lies_like(param: Tensor, tensor: Tensor) -> bool:
    layouts = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)
    return tensor.stride() == param.stride() and any(param.is_contiguous(memory_format=layout) for layout in layouts)


def _laid_out(params: Tensors, tensors: Tensors, dtype: torch.dtype) -> Tensors:
    """Return the tensors, or copies of all where one is of another dtype or lies otherwise than its parameter."""
    if all(each.dtype is dtype and _lies_like(param, each) for param, each in zip(params, tensors, strict=True)):
        return tensors
    copies = [torch.empty_like(param, dtype=dtype) for param in params]
    torch._foreach_copy_(copies, tensors)
    return copies


def _widest(tensors: Sequence[Tensor]) -> torch.dtype:
    """Return the dtype of the arithmetic, which holds the values of all tensors exactly."""
    return torch.float64 if any(tensor.dtype is torch.float64 for tensor in tensors) else torch.float32


def trusts_torch(tensor: Tensor) -> bool:
    """Return whether torch's kernels over lists do all that is asked, where the tensor lies, or would lie if fake."""
    return backends.has_fused_kernels(getattr(tensor, "fake_device", tensor.device).type)


def _is_fake(tensor: Tensor) -> bool:
    return hasattr(tensor, "fake_device")


for _function in (adam_step_, sgd_step_):
    library.impl(_function.__name__, _function, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
