"""Steps through a skip, clipping and a checkpoint, beside the same steps in float64."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polycast import backends, syncfree
from polycast.debug.verification.findings import ALLOWED, BROKEN, KEPT, Check, attempted
from polycast.debug.verification.outcomes import same_bits
from polycast.scaler.scaler import GradScaler

# The mean error of many elements, each the end of a random walk, differs little from one rounding to the next.
SHAPES = ((), (3, 5), (0, 2), (40, 250))
STEPS, CLIPPED, ELSEWHERE = 24, 12, 18
"""How many steps; from which on gradients are clipped; which one torch.optim takes."""
SKIPPED = {1: (1, math.nan), 6: (-1, math.inf), 9: (0, -math.inf)}
"""The steps that are skipped, each with the gradient whose last element is not finite, and that element."""
MAX_NORM, SCALE = 30.0, 1024.0
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1},
    "Adam": {"lr": 0.01, "weight_decay": 0.1},
    "AdamW": {"lr": 0.01, "weight_decay": 0.1},
}


class Kind(NamedTuple):
    """Whose optimizer and scaler take a step, and how the optimizer is made."""

    optimizers: Any
    scaler: Any
    options: dict[str, Any]


OURS = Kind(syncfree, GradScaler, {})
FOR_LOOP = Kind(torch.optim, torch.amp.grad_scaler.GradScaler, {"foreach": False, "fused": False})
BESIDE = Kind(torch.optim, GradScaler, FOR_LOOP.options)
FUSED = Kind(torch.optim, torch.amp.grad_scaler.GradScaler, {"fused": True})


class Run(NamedTuple):
    """The parameters at the end, on the host in float64, and how many tensors the skipped steps changed."""

    params: Tensor
    changed: int
    scale: float


def check_steps(device_type: str) -> Iterator[Check]:
    """Yield a check of each optimizer, in float32 and in bfloat16."""
    for name in OPTIMIZERS:
        for dtype in (torch.float32, torch.bfloat16):
            title = f"{name} in {str(dtype).removeprefix('torch.')}"
            yield attempted("steps", title, partial(_check, title, name, device_type, dtype))


def _check(title: str, name: str, device_type: str, dtype: torch.dtype) -> Check:
    exact = train(name, lambda _: FOR_LOOP, backends.HOST, dtype, torch.float64)
    for_loop = train(name, lambda _: FOR_LOOP, backends.HOST, dtype)
    ours = train(name, lambda number: BESIDE if number == ELSEWHERE else OURS, device_type, dtype)
    figures = {"torch's for-loop": _error(for_loop, exact), "polycast": _error(ours, exact)}
    if has_fused(name, device_type, dtype):
        figures["torch's fused"] = _error(train(name, lambda _: FUSED, device_type, dtype), exact)
    text = ", ".join(f"{whose} {error:.3g}" for whose, error in figures.items())
    problems = [f"a skipped step changed {ours.changed} tensors"] if ours.changed else []
    problems += [f"the scale is {ours.scale:g}, not {exact.scale:g}"] if ours.scale != exact.scale else []
    if not figures["polycast"] <= ALLOWED * figures["torch's for-loop"]:
        problems.append(f"the error is more than {ALLOWED} times that of torch's for-loop on the {backends.HOST}")
    found = "; ".join([*problems, f"mean absolute error of the parameters: {text}"])
    return Check("steps", title, BROKEN if problems else KEPT, found, figures)


def _error(run: Run, exact: Run) -> float:
    return run.params.sub(exact.params).abs().mean().item()


def train(
    name: str, kind_at: Callable[[int], Kind], device_type: str, dtype: torch.dtype, wide: torch.dtype | None = None
) -> Run:
    """Step on numbers of a dtype, in that dtype or a wider one. Where the kind changes, a checkpoint is loaded."""
    generator = torch.Generator().manual_seed(0)
    params = [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES]
    params = [param.to(device_type, wide or dtype).requires_grad_() for param in params]
    kind = kind_at(0)
    optimizer, scaler = made(name, kind, params, device_type)
    changed = 0
    for number in range(STEPS):
        if kind_at(number) is not kind:
            saved, torchs = optimizer.state_dict(), torch.amp.grad_scaler.GradScaler(device_type)
            torchs.load_state_dict(scaler.state_dict())
            kind = kind_at(number)
            optimizer, scaler = made(name, kind, params, device_type)
            optimizer.load_state_dict(saved)
            scaler.load_state_dict(torchs.state_dict())
        grads = [torch.randn(shape, generator=generator).to(dtype) for shape in SHAPES]
        if number in SKIPPED:
            index, value = SKIPPED[number]
            grads[index].view(-1)[-1] = value
        before = values(optimizer) if number in SKIPPED else []
        step(optimizer, scaler, params, [grad.to(device_type, wide or dtype) for grad in grads], clip=number >= CLIPPED)
        after = values(optimizer) if number in SKIPPED else []
        backends.synchronize(device_type, wait=False)
        changed += len(after) - sum(map(same_bits, before, after))
    flat = torch.cat([param.detach().cpu().double().view(-1) for param in params])
    return Run(flat, changed, scaler.get_scale())


def made(name: str, kind: Kind, params: list[Tensor], device_type: str, scale: float = SCALE) -> tuple[Any, Any]:
    """Return an optimizer and a scaler."""
    optimizer = getattr(kind.optimizers, name)(params, **OPTIMIZERS[name], **kind.options)
    return optimizer, kind.scaler(device_type, init_scale=scale)


def step(optimizer: Any, scaler: Any, params: list[Tensor], grads: list[Tensor], *, clip: bool) -> None:
    """Scale a loss with these gradients, and step."""
    optimizer.zero_grad()
    loss = torch.stack([(param * grad).sum().float() for param, grad in zip(params, grads, strict=True)]).sum()
    scaler.scale(loss).backward()
    if clip and isinstance(scaler, GradScaler):
        scaler.clip_grad_norm(optimizer, MAX_NORM)
    elif clip:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(params, MAX_NORM)
    scaler.step(optimizer)
    scaler.update()


def values(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return copies on the host of all that a step may write: the parameters and their state."""
    state = [value for values in optimizer.state.values() for value in values.values() if isinstance(value, Tensor)]
    written = [param for group in optimizer.param_groups for param in group["params"]] + state
    return [tensor.detach().to(backends.HOST, copy=True) for tensor in written]


def has_fused(name: str, device_type: str, dtype: torch.dtype = torch.float32) -> bool:
    """Return whether torch's fused kernel of an optimizer runs on the device."""
    param = torch.ones(1, device=device_type, dtype=dtype, requires_grad=True)
    param.grad = torch.ones_like(param)
    try:
        made(name, FUSED, [param], device_type)[0].step()
    except (RuntimeError, NotImplementedError):
        return False
    return True
