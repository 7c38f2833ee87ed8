"""Helpers for the tests of the optimizers: the kernels to run on, models of a few parameters, and steps."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import Any, NamedTuple
from unittest.mock import patch

import polycast
import torch
from polycast import devices, syncfree
from polycast.cast_by_hand import same_bits as same_bits
from polycast.scaler import torch_foreach  # noqa: F401 -- it registers the operators of a scaler for other devices
from polycast.syncfree import torch_fused
from polycast.torch_internals import fused_sgd_
from torch import Tensor

Options = dict[str, Any]
OURS: dict[str, Any] = {"SGD": syncfree.SGD, "Adam": syncfree.Adam, "AdamW": syncfree.AdamW}
THEIRS: dict[str, Any] = {name: getattr(torch.optim, name) for name in OURS}
FOR_LOOP = {"foreach": False, "fused": False}

OPERATORS = ("adam_step_", "sgd_step_", "find_non_finite", "norm", "unscale_", "update_scale_")
_ELSEWHERE = torch._C.DispatchKeySet(torch._C.DispatchKey.XPU)


@contextmanager
def composition() -> Iterator[None]:
    """Run the code for devices with PyTorch's fused kernels, and without polycast's, on CPU tensors."""
    with torch.library._scoped_library("polycast", "IMPL") as library:
        for name in OPERATORS:
            operator = getattr(torch.ops.polycast, name).default
            library.impl(name, partial(operator.redispatch, _ELSEWHERE), "CPU", allow_override=True)
        with patch.object(torch_fused, "fused_sgd_", _whole_fused_sgd):
            yield


def _whole_fused_sgd(*lists: list[Tensor], **options: Any) -> None:
    """Step 16-bit tensors in float32, because PyTorch's fused SGD on the CPU omits some 16-bit elements."""
    wide = [[tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in tensors] for tensors in lists]
    fused_sgd_(*wide, **options)
    for tensor, value in zip(chain(*lists), chain(*wide), strict=True):
        tensor.copy_(value)


@contextmanager
def by_torch() -> Iterator[None]:
    """Run the code for devices without fused kernels on CPU tensors: a device sync, and the step of ``torch.optim``."""
    with patch.multiple(devices.Fused, skips_by_itself=False, has_float64=False), composition():
        yield


PATHS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "fused": nullcontext,
    "composition": composition,
    "torch.optim": by_torch,
}


class Kernels(NamedTuple):
    """The kernels of a step: the kernels of a device, or one of ``PATHS`` on the CPU."""

    device: str  # This is a device type, such as "cpu".
    path: str = "fused"

    def __str__(self) -> str:
        return self.path if self.device == devices.HOST else self.device


def kernels_on(device_types: Iterable[str], paths: Iterable[str] = tuple(PATHS)) -> list[Kernels]:
    """Return the kernels of these device types, with each of the paths on the CPU."""
    return [Kernels(each, path) for each in device_types for path in (paths if each == devices.HOST else ["fused"])]


SHAPES = ((7,), (3, 5), ())
# Each code path has one set of options.
KINDS: dict[str, tuple[str, Options]] = {
    "SGD": ("SGD", {"lr": 0.1}),
    "SGD momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "SGD nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "SGD dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    "Adam": ("Adam", {"lr": 0.01, "weight_decay": 0.01}),
    "Adam amsgrad": ("Adam", {"lr": 0.01, "amsgrad": True}),
    "AdamW": ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    "AdamW amsgrad maximize": ("AdamW", {"lr": 0.01, "amsgrad": True, "maximize": True}),
}


def make(library: dict[str, Any], kind: str, params: Any, **more: Any) -> torch.optim.Optimizer:
    """Return an optimizer of one of ``KINDS``. An optimizer of ``torch.optim`` uses the for-loop."""
    name, options = KINDS[kind]
    given = {**options, **(FOR_LOOP if library is THEIRS else {}), **more}
    optimizer: torch.optim.Optimizer = library[name](params, **given)
    return optimizer


def parameters(
    *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32, seed: int = 0, device: str = "cpu"
) -> list[Tensor]:
    """Return leaves with random numbers, which are equal on each device."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(device, dtype).requires_grad_() for shape in shapes]


def set_grads(params: Iterable[Tensor], seed: int, factor: float = 1.0) -> None:
    """Set a random gradient for each parameter. Equal seeds and factors give equal gradients."""
    generator = torch.Generator().manual_seed(1000 + seed)
    for param in params:
        real = torch.randn(param.shape, generator=generator) * factor
        param.grad = torch.empty_like(param).copy_(real)


def clones(params: Iterable[Tensor], device: str | None = None) -> list[Tensor]:
    return [param.detach().to(device=device, copy=True).requires_grad_(param.requires_grad) for param in params]


def on_host(params: Iterable[Tensor]) -> list[Tensor]:
    return [param.detach().cpu() for param in params]


def tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return all tensors that a step can write: the parameters and their state."""
    state = [value for values in optimizer.state.values() for value in values.values() if isinstance(value, Tensor)]
    return [param for group in optimizer.param_groups for param in group["params"]] + state


def clip(scaler: Any, optimizer: Any, max_norm: float, **options: Any) -> Tensor:
    """Clip gradients with polycast's scaler, or with PyTorch's scaler and function, and return the norm."""
    if isinstance(scaler, polycast.GradScaler):
        return scaler.clip_grad_norm(optimizer, max_norm)
    scaler.unscale_(optimizer)
    params = [param for group in optimizer.param_groups for param in group["params"]]
    return torch.nn.utils.clip_grad_norm_(params, max_norm, **options)


def step(optimizer: Any, **scalars: float) -> None:
    """Step with these scalars as one-element tensors."""
    optimizer.step(**{name: torch.tensor(value) for name, value in scalars.items()})
