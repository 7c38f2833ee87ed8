"""The state that a gradient scaler has of each optimizer, and its passes over the optimizer's gradients."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from polycast._operators import AUTOCAST_KEYS
from polycast.scaler.meshes import FoundInfs, GradientCheck, Meshes, Shards, agree, meshes_of
from polycast.syncfree.gather import gather_gradients
from polycast.syncfree.step import SyncFreeOptimizer
from polycast.syncfree.tensor_lists import Group, moved, name_of
from polycast.torch_internals import OptState, exclude_keys, global_post_hooks, global_pre_hooks

# These modules of PyTorch wrap a step and do not use gradients: one calls hooks, the other counts steps.
_AROUND = ("torch.optim.optimizer", "torch.optim.lr_scheduler")


@dataclass(slots=True)
class OptimizerState:
    """The state that a scaler has of an optimizer and of its wrappers."""

    optimizer: Callable[[], Any]  # returns the optimizer, by a weak reference if possible
    process_group: Any  # ranks that skip together in addition to the ranks of each mesh, or None
    was_skipped: Tensor  # whether the last step was skipped: a float32 element on the device of the scale
    skip_count: Tensor
    checks: Sequence[GradientCheck] = ()  # the results of the last check
    # The following fields are the state of this iteration.
    of_torch: dict[str, Any] = field(default_factory=dict)  # PyTorch's state: its stage, and `found_inf` of each device
    meshes: Meshes = field(default_factory=dict)  # the ranks of each mesh agree on `found_inf`
    clip_coef: Tensor | None = None  # the factor by which the step multiplies the gradients

    def check_inf(self, param_groups: list[Group]) -> FoundInfs:
        """Check the gradients without writing them, and return whether any is non-finite, by device."""
        checks, operator = [], torch.ops.polycast.find_non_finite.default
        for each in gather_gradients(param_groups):
            found = each.call(operator, param_groups)
            checks.append(GradientCheck(each.params, each.mesh, each.split_dims, *found))
        return self.agree(param_groups, checks)[0]

    def clip(self, param_groups: list[Group], scale: Tensor, max_norm: float, norm_type: float) -> Tensor:
        """Check the gradients and return their norm, without writing them. The next step clips the gradients."""
        if self.of_torch["stage"] is OptState.STEPPED:
            raise RuntimeError("clip_grad_norm() is being called after step(); call it before step()")
        if self.process_group is not None:
            text = "clip_grad_norm() is not supported with FSDP1 or a process_group, because a rank may have only part"
            remedy = "call unscale_(), then FSDP1's clip_grad_norm_(), or without FSDP1 clip by the norm over the group"
            raise RuntimeError(f"{text} of the gradients; {remedy}")
        if self.clip_coef is not None:
            text = "clip_grad_norm() has already been called on this optimizer since the last update()"
            raise RuntimeError(f"{text}; call update() after every batch, including batches that you skip")
        checks, operator, is_scaled = [], torch.ops.polycast.norm.default, self.of_torch["stage"] is OptState.READY
        for each in gather_gradients(param_groups, add_duplicates=True):
            if norm_type != 2 and any(param.is_complex() for param in each.params):
                raise ValueError(f"norm_type: expected 2 for complex gradients, got {norm_type}; pass 2")
            grad_scale = moved(scale, each.device) if is_scaled else None
            arguments = {"infinity": norm_type != 2, "grad_scale": grad_scale}
            norm, found_inf, non_finite = each.call(operator, param_groups, arguments)
            checks.append(GradientCheck(each.params, each.mesh, each.split_dims, found_inf, non_finite, norm))
        found_infs, norms = self.agree(param_groups, checks, with_norms=True)
        total, *others = norms or [torch.zeros_like(scale)]
        if others or total.dim():  # the operator can add parts whose squares would overflow
            total = torch.ops.polycast.norm([total, *others], norm_type != 2)[0]
        if is_scaled:
            self.of_torch["found_inf_per_device"] = found_infs
        # `torch.nn.utils.clip_grad_norm_` rounds in the same way: `max_norm / tensor` also computes the reciprocal.
        with exclude_keys(AUTOCAST_KEYS):
            self.clip_coef = ((total + 1e-6).reciprocal() * max_norm).clamp_max(1.0)
        return total

    def step(self, scale: Tensor, found_inf: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Step a sync-free optimizer, which skips by itself."""
        optimizer: Any = self.optimizer()
        # After `unscale_` the step must not divide again, except by a `grad_scale` that the program has set itself.
        grad_scale = getattr(optimizer, "grad_scale", None)
        if self.of_torch["stage"] is OptState.READY:
            grad_scale = scale if grad_scale is None else scale * grad_scale
        # We pass attributes, as PyTorch does to fused steps, because the step of a subclass may have another signature.
        given = {"found_inf": found_inf, "grad_scale": grad_scale, "clip_coef": self.clip_coef}
        vars(optimizer).update(given)
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            for name in given:
                delattr(optimizer, name)

    def agree(
        self, param_groups: list[Group], checks: list[GradientCheck], with_norms: bool = False
    ) -> tuple[FoundInfs, list[Tensor]]:
        """Store the checks of this rank, and return the results of all ranks."""
        self.checks, self.meshes, device = checks, {}, self.was_skipped.device
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self.meshes = meshes_of(param_groups)
            if self.process_group is not None:
                self.meshes[self.process_group] = Shards(device)
        if self.meshes:
            return agree(checks, self.meshes, device, with_norms)
        found_infs, norms = dict[Any, Tensor](), list[Tensor]()
        for check in checks:
            found_infs[check.found_inf.device] = check.found_inf
            norms += [] if check.norm is None else [moved(check.norm, device)]
        return found_infs, norms

    def non_finite(self, param_groups: list[Group]) -> list[str]:
        """Return the names of the parameters whose gradients were non-finite on this rank, with a sync."""
        checked = (zip(each.params, each.non_finite.tolist(), strict=True) for each in self.checks)
        return [name_of(param_groups, param) for pairs in checked for param, flag in pairs if flag]


def multiply(
    groups: list[Group], factor: Tensor, allow_float16: bool = False, divisor: Tensor | None = None
) -> list[GradientCheck]:
    """Multiply gradients in place, and return their checks. By default, raise for float16, as in PyTorch."""
    if divisor is not None:
        with exclude_keys(AUTOCAST_KEYS):
            factor = factor / divisor
    checks, operator = [], torch.ops.polycast.unscale_.default
    gathered = gather_gradients(groups, write=True)
    for each in () if allow_float16 else gathered:
        for param, grad in zip(each.params, each.lists[0], strict=True):
            if grad.dtype is torch.float16:
                remedy = f"{name_of(groups, param)}.grad is torch.float16; keep the parameters in float32"
                raise ValueError(f"Attempting to unscale FP16 gradients. {remedy}")
    for each in gathered:
        found_inf = torch.zeros((), dtype=torch.float32, device=each.device)
        arguments = {"found_inf": found_inf, "inv_scale": moved(factor, each.device)}
        non_finite = each.call(operator, groups, arguments)
        checks.append(GradientCheck(each.params, each.mesh, each.split_dims, found_inf, non_finite))
    return checks


@torch.inference_mode(False)  # A count that is created in inference mode cannot be written outside of it.
def new_state(optimizer: Any, on_free: Callable[[Any], Any], process_group: Any, scale: Tensor) -> OptimizerState:
    """Return an optimizer's state before its first step. FSDP1's shards lack a mesh: by default all ranks agree."""
    params = (param for group in optimizer.param_groups for param in group["params"])
    if process_group is None and any(getattr(param, "_fsdp_flattened", False) for param in params):
        process_group = torch.distributed.group.WORLD
    zeros = torch.zeros_like(scale), torch.zeros_like(scale)
    return OptimizerState(_reference_to(optimizer, on_free), process_group, *zeros)


def _reference_to(optimizer: Any, on_free: Callable[[Any], Any]) -> Callable[[], Any]:
    try:
        return weakref.ref(optimizer, on_free)
    except TypeError:  # The class has `__slots__`. While the optimizer is referenced, no other object has its id.
        return lambda: optimizer


def unwrapped(optimizer: Any) -> Any:
    """Return the optimizer inside trainers' wrappers. A wrapper has the groups of its attribute ``optimizer``."""
    inner = getattr(optimizer, "optimizer", None)
    while isinstance(inner, torch.optim.Optimizer) and inner.param_groups is getattr(optimizer, "param_groups", None):
        optimizer, inner = inner, getattr(inner, "optimizer", None)
    return optimizer


def needs_inplace_unscale(optimizer: Any, closure: Any, is_clipped: bool) -> bool:
    """Return whether to unscale and clip gradients in place before ``optimizer.step(closure)``.

    The fused steps of PyTorch unscale and do not clip. A sync-free step unscales and clips while it reads the
    gradients, so ``.grad`` may remain scaled. Other code within the step (of a subclass, a wrapper, a step hook or a
    closure) must see the same gradients as with PyTorch's scaler.
    """
    if getattr(optimizer, "_step_supports_amp_scaling", False):
        return is_clipped
    if not isinstance(optimizer, SyncFreeOptimizer):
        return True
    step: Any = getattr(optimizer.step, "__func__", optimizer.step)
    # `functools.wraps` copies the attributes of the wrapped function to the wrapper, but not its globals.
    while getattr(step, "__globals__", {}).get("__name__") in _AROUND:
        step = getattr(step, "__wrapped__", None)
    if closure is not None or step is not SyncFreeOptimizer.step:
        return True
    own_hooks = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
    for hooks in (global_pre_hooks, global_post_hooks, *own_hooks):
        for hook in hooks.values():
            module: str = getattr(hook, "__module__", None) or ""
            # Our hooks and the profiler's do not need unscaled gradients.
            if module.partition(".")[0] != "polycast" and module != "torch.profiler":
                return True
    return False
