"""A ``torch.amp.GradScaler`` for every device, without device syncs for sync-free and fused optimizers."""

from collections import ChainMap, defaultdict
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as TorchGradScaler
from torch.optim import Optimizer

from polycast import _warnings, devices
from polycast.scaler import torch_foreach  # noqa: F401 -- the import registers the operators for other devices
from polycast.scaler.arguments import check_number, checked_norm, checked_state
from polycast.scaler.meshes import FoundInfs, any_found, found_by_all
from polycast.scaler.optimizer_state import OptimizerState, multiply, needs_inplace_unscale, new_state, unwrapped
from polycast.syncfree.step import SyncFreeOptimizer
from polycast.syncfree.tensor_lists import call
from polycast.torch_internals import OptState, disabled, fresh_optimizer_state


class GradScaler(TorchGradScaler):
    """A ``torch.amp.GradScaler`` for every device, without device syncs for sync-free and fused optimizers.

    With an optimizer of :mod:`polycast.syncfree`, one pass checks the gradients, and the step unscales, clips and skips
    on the device. :meth:`step` describes the exceptions.

    ``step``, ``unscale_`` and ``clip_grad_norm`` check the gradients, and ``update`` sets the scale. If a check since
    the last update found a non-finite gradient, ``update`` multiplies the scale by ``backoff_factor``, down to
    ``min_scale``. After ``growth_interval`` consecutive updates without such a gradient, it multiplies the scale by
    ``growth_factor``, up to ``max_scale``, and never to infinity. Call ``update`` even if you skip a checked batch.

    Args:
        device: A device type such as "cpu", "cuda" or "xla", or a ``torch.device``. None selects the device of the
            first outputs that are scaled. As in PyTorch, "cuda" disables the scaler, with a warning, if neither CUDA
            nor ``torch_xla`` is available.
        init_scale: The initial scale.
        growth_factor: The factor by which the scale grows, above 1.
        backoff_factor: The factor by which the scale shrinks, below 1.
        growth_interval: The number of consecutive updates without a non-finite gradient after which the scale grows.
        enabled: Whether to scale, check and skip. If False, ``scale`` returns its argument and ``step`` always steps.
        min_scale: The lowest scale. The scale never falls below the smallest normal number of float32.
        max_scale: The highest scale.
        skip_on_host: Whether to read ``found_inf`` before each step, with a sync, and to skip without a call of
            ``optimizer.step``. Set it for trainers that check whether ``optimizer.step`` was called.
        process_group: The ranks that skip steps together. Pass it for shards that are not DTensors, and for the stages
            of a pipeline, where each rank otherwise skips on its own. The ranks of a DTensor always skip together. For
            the shards of FSDP1 the default is all ranks.

    Raises:
        TypeError, ValueError: If ``init_scale`` is not a finite number in valid bounds, or PyTorch lacks the device.
        AssertionError: As in PyTorch, if ``growth_factor`` is not above 1, or ``backoff_factor`` is not below 1.

    Example:
        >>> import torch, polycast
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = polycast.syncfree.SGD(model.parameters(), lr=0.1)
        >>> scaler = polycast.GradScaler(init_scale=2.0**10)
        >>> with polycast.autocast("cpu", dtype=torch.float16):
        ...     loss = model(torch.ones(8, 4)).mean()
        >>> scaler.scale(loss).backward()
        >>> norm = scaler.clip_grad_norm(optimizer, max_norm=1.0)  # a tensor
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> bool(scaler.step_was_skipped(optimizer))
        False
    """

    _scale: Tensor | None = None
    _states: dict[int, OptimizerState]  # the keys are ids, because optimizers may define equality

    @disabled
    def __init__(
        self,
        device: str | torch.device | None = None,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        *,
        min_scale: float = 0.0,
        max_scale: float = float("inf"),
        skip_on_host: bool = False,
        process_group: Any = None,
    ) -> None:
        if not min_scale <= max_scale:
            got = f"{min_scale=} and {max_scale=}; pass numbers with min_scale <= max_scale"
            raise ValueError(f"min_scale: expected at most max_scale, got {got}")
        # With a scale of 0 all gradients are 0, and NaN after the division. The reciprocal of `tiny` is finite.
        self._bounds = low, high = max(min_scale, torch.finfo(torch.float32).tiny), max_scale
        if not low <= check_number("init_scale", init_scale, above=0) <= high:
            wanted = f"a number from min_scale ({min_scale}) to max_scale ({max_scale})"
            raise ValueError(f"init_scale: expected {wanted}, got {init_scale}; change one of the three")
        device_type = "" if device is None else devices.known_device_type(device)
        super().__init__(device_type, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._skip_on_host, self._process_group, self._states = skip_on_host, process_group, {}

    @disabled
    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the scale, in place, as ``torch.amp.GradScaler.unscale_`` does.

        Raises:
            RuntimeError: As in PyTorch, if this method was called or the optimizer stepped since the last ``update``.
            ValueError, AssertionError: As in PyTorch, if a gradient is float16, or if nothing was scaled.
        """
        if self._enabled:
            self._current(optimizer, "unscale_")
            super().unscale_(optimizer)

    @disabled
    def clip_grad_norm(self, optimizer: Optimizer, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip the total norm of an optimizer's gradients in its next step, and return the norm.

        This method does not change ``.grad``, hence the name without an underscore. One pass computes the norm and
        checks the gradients, and ``step`` clips them. Call this method once before each step, before or after
        ``unscale_``. A disabled scaler calls ``torch.nn.utils.clip_grad_norm_``, which clips in place.

        Args:
            optimizer: The optimizer to clip.
            max_norm: The largest norm of the unscaled gradients, above 0.
            norm_type: The order of the norm, 2 or infinity. Complex gradients require 2. For another order, call
                ``unscale_`` and ``torch.nn.utils.clip_grad_norm_`` instead.

        Returns:
            The norm of the unscaled, unclipped gradients: one element, without a sync. If the scaler is enabled, the
            norm is on the device of the scale. The norm is non-finite if a gradient is non-finite.

        Raises:
            TypeError, AssertionError: If ``optimizer`` is not an optimizer, or if nothing was scaled.
            ValueError: If ``max_norm`` is not positive, or ``norm_type`` is not supported.
            RuntimeError: If this method or ``step`` was called since the last ``update``, or if the scaler has a
                ``process_group`` or the parameters belong to FSDP1.
        """
        if not hasattr(optimizer, "param_groups"):
            kind = type(optimizer).__name__
            raise TypeError(f"optimizer: expected an optimizer, got a {kind}; pass the optimizer of the parameters")
        max_norm, norm_type = checked_norm(max_norm, norm_type)
        if not self._enabled:
            params = [param for group in optimizer.param_groups for param in group["params"]]
            norm: Any = torch.nn.utils.clip_grad_norm_(params, max_norm, norm_type)
            return norm.full_tensor() if hasattr(norm, "full_tensor") else norm  # type: ignore[no-any-return]
        state, scale = self._current(optimizer, "clip_grad_norm")
        return state.clip(optimizer.param_groups, scale, max_norm, norm_type)

    @disabled
    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Step an optimizer, unless one of its gradients is non-finite.

        Sync-free optimizers, and PyTorch's fused ones, skip on the device. For any other optimizer, such as a wrapper,
        the scaler reads ``found_inf``, with a sync.

        A sync-free step unscales and clips while it reads the gradients, so ``.grad`` may remain scaled. PyTorch's
        fused optimizers unscale by themselves unless you clip. For other optimizers ``.grad`` is first unscaled and
        clipped in place. The same happens before a sync-free step in which other code can see the gradients. Such code
        is a closure, a step hook, or a ``step`` that another class or a wrapper defines.

        Args:
            optimizer: The optimizer to step.
            args, kwargs: Arguments of ``optimizer.step``. A closure must be positional. Except with PyTorch's fused
                optimizers, it sees unscaled gradients, is not called if the step is skipped, and costs one sync.

        Raises:
            RuntimeError: As in PyTorch, if the optimizer was stepped since the last ``update``, or if ``closure`` is a
                keyword argument.
            ValueError: As in PyTorch, if a gradient that must be unscaled in place is float16.
            AssertionError: If nothing was scaled, or (not with PyTorch's fused optimizers) if no rank has a gradient.
        """
        if not self._enabled:
            return super().step(optimizer, *args, **kwargs)
        if "closure" in kwargs:
            remedy = "Pass the closure as a positional argument."
            raise RuntimeError(f"Closure use is not currently supported if GradScaler is enabled. {remedy}")
        state, found_inf = self._prepare(optimizer, "step", args[0] if args else None)
        return self._take_step(optimizer, state, found_inf, args, kwargs)

    @disabled
    def step_together(self, *optimizers: Optimizer) -> None:
        """Step all optimizers, or none of them if any gradient is non-finite on any rank. Do not call ``step`` as well.

        Raises:
            ValueError: If an optimizer appears twice.
            RuntimeError, ValueError, AssertionError: As for ``step``.
        """
        if len(set(map(id, map(unwrapped, optimizers)))) < len(optimizers):
            raise ValueError("optimizers: expected different optimizers, got one of them twice; pass each one once")
        if not self._enabled:
            for optimizer in optimizers:
                optimizer.step()
            return
        scale, _ = self._check_scale_growth_tracker("step_together")
        prepared = [self._prepare(optimizer, "step_together") for optimizer in optimizers]
        meshes = [state.meshes for state, _ in prepared]
        found_inf = found_by_all([each for _, each in prepared], meshes, scale.device)
        is_checked = any(state.of_torch["found_inf_per_device"] for state, _ in prepared)
        for optimizer, (state, _) in zip(optimizers, prepared, strict=True):
            if is_checked:  # otherwise `update` raises
                state.of_torch["found_inf_per_device"] = {found_inf.device: found_inf}
                state.meshes = dict(ChainMap(*meshes))
            self._take_step(optimizer, state, found_inf, (), {})

    @disabled
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale for the next iteration, to ``new_scale`` if given.

        Args:
            new_scale: A positive, finite number, or a tensor with one element. The bounds limit both. With None,
                the scale shrinks or grows as :class:`GradScaler` describes.

        Raises:
            AssertionError: As in PyTorch, if a tensor is invalid, or nothing was scaled or (for None) checked.
            TypeError, ValueError: If ``new_scale`` is neither a tensor nor a positive, finite number.
        """
        if not self._enabled:
            return
        scale, growth_tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            is_tensor = isinstance(new_scale, Tensor)
            super().update(new_scale if is_tensor else check_number("new_scale", new_scale, above=0))
            scale.clamp_(*self._bounds)
            return
        if min(self._growth_factor, self._growth_interval) < 1:  # PyTorch's setters accept these values.
            text = f"expected 1 or more for both, got {self._growth_factor} and {self._growth_interval}; set 1 or more"
            _warnings.warn(f"growth_factor, growth_interval: {text}, because otherwise the scale cannot rise again")
        current = self._per_optimizer_states  # This dict has the checks of optimizers that were freed after a step.
        meshes = [each.meshes for key, each in self._states.items() if each.of_torch is current.get(key)]
        found_infs = [found for each in current.values() for found in each["found_inf_per_device"].values()]
        found_inf = found_by_all(found_infs, meshes, scale.device)
        assert found_infs, "No inf checks were recorded prior to update. Call step() first."
        factors = self._growth_factor, self._backoff_factor, self._growth_interval
        operator = torch.ops.polycast.update_scale_.default
        call(operator, scale.device, (scale, growth_tracker, found_inf, *factors, *self._bounds))
        self._per_optimizer_states = defaultdict(fresh_optimizer_state)

    def step_was_skipped(self, optimizer: Optimizer) -> Tensor:
        """Return whether the last step of an optimizer was skipped, as a tensor, without a sync.

        The tensor is on the device of the scale. It is False before the first step, and for a disabled scaler.
        """
        return self._skips(optimizer)[0] != 0

    def skip_count(self, optimizer: Optimizer) -> Tensor:
        """Return the number of skipped steps of an optimizer, as an int64 tensor, without a sync.

        The tensor is on the device of the scale. A copy of a scaler counts from 0.
        """
        return self._skips(optimizer)[1].to(torch.int64)

    def non_finite(self, optimizer: Optimizer) -> list[str]:
        """Return the names of the parameters whose gradients were non-finite in the last check, with a sync.

        If the optimizer has no names of parameters, a name has the form "param_groups[0]['params'][3]". Each rank
        returns only the names for gradients or shards that were non-finite on this rank.
        """
        state = self._states.get(id(unwrapped(optimizer)))
        return state.non_finite(optimizer.param_groups) if state else []

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that ``state_dict`` of this class or of ``torch.amp.GradScaler`` returned.

        The scale is limited to the bounds of this scaler. If an error is raised, nothing is loaded.

        Raises:
            RuntimeError, KeyError: As in PyTorch, if the state is empty or lacks a value.
            TypeError, ValueError: If a value is not a finite number, ``growth_interval`` is not an integer, or the
                scale is not positive.
        """
        if self._enabled and state_dict:
            state_dict = checked_state(state_dict, self._bounds)
        super().load_state_dict(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_states": {}}

    def _lazy_init_scale_growth_tracker(self, dev: torch.device) -> None:
        super()._lazy_init_scale_growth_tracker(dev)
        self._device = self._device or dev.type

    def _unscale_grads_(self, optimizer: Any, inv_scale: Tensor, found_inf: Any, allow_fp16: bool) -> FoundInfs:  # noqa: ARG002
        (state, _), groups = self._current(optimizer, "unscale_"), optimizer.param_groups
        return state.agree(groups, multiply(groups, inv_scale, allow_fp16))[0]

    def _check_inf_per_device(self, optimizer: Optimizer) -> FoundInfs:
        """Check the gradients, unless an earlier call in this iteration has checked them."""
        state, _ = self._current(optimizer, "_check_inf_per_device")
        found_infs: FoundInfs = state.of_torch["found_inf_per_device"]
        if not found_infs and getattr(self._unscale_grads_, "__func__", None) is not GradScaler._unscale_grads_:
            return super()._check_inf_per_device(optimizer)  # this calls the subclass's method
        state.of_torch["found_inf_per_device"] = found_infs = found_infs or state.check_inf(optimizer.param_groups)
        return found_infs

    def _current(self, optimizer: Optimizer, caller: str) -> tuple[OptimizerState, Tensor]:
        """Return the state of an optimizer in this iteration, and the scale. Raise if nothing was scaled."""
        scale, _ = self._check_scale_growth_tracker(caller)
        inner = unwrapped(optimizer) if hasattr(optimizer, "optimizer") else optimizer
        key, states = id(inner), self._states
        if key not in states:
            states[key] = new_state(inner, lambda _: states.pop(key, None), self._process_group, scale)
        state, of_torch = states[key], self._per_optimizer_states[key]
        if inner is not optimizer:
            self._per_optimizer_states[id(optimizer)] = of_torch  # PyTorch looks up the state by the wrapper.
        if state.of_torch is not of_torch:  # this is the first call of the iteration
            state.of_torch, state.clip_coef, state.meshes = of_torch, None, {}
        return state, scale

    def _prepare(self, optimizer: Optimizer, caller: str, closure: Any = None) -> tuple[OptimizerState, Tensor]:
        """Check the gradients if necessary, unscale and clip them if the step does not, and return ``found_inf``."""
        state, scale = self._current(optimizer, caller)
        of_torch = state.of_torch
        if of_torch["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update(). Call update() after all steps.")
        in_place = needs_inplace_unscale(optimizer, closure, state.clip_coef is not None)
        is_ready = of_torch["stage"] is OptState.READY
        if is_ready and state.clip_coef is None:
            of_torch["found_inf_per_device"] = {}  # A step that raised may have checked other gradients.
            (self.unscale_ if in_place else self._check_inf_per_device)(optimizer)
        elif in_place and state.clip_coef is not None:
            multiply(optimizer.param_groups, state.clip_coef, divisor=scale if is_ready else None)
            of_torch["stage"], state.clip_coef = OptState.UNSCALED, None
        found_infs = of_torch["found_inf_per_device"]
        if not found_infs and not getattr(optimizer, "_step_supports_amp_scaling", False):
            raise AssertionError("No inf checks were recorded for this optimizer. Run backward() before its step.")
        found_inf = any_found(list(found_infs.values()), scale.device)
        if found_infs:  # PyTorch's scaler adds the flags, and its fused optimizers do not skip for a sum of 2.
            of_torch["found_inf_per_device"] = {found_inf.device: found_inf}
        return state, found_inf

    def _take_step(
        self, optimizer: Any, state: OptimizerState, found_inf: Tensor, args: Any, kwargs: Any
    ) -> float | None:
        closure, result = args[0] if args else None, None
        is_ours = isinstance(optimizer, SyncFreeOptimizer) and state.optimizer() is optimizer and closure is None
        skips_by_itself = is_ours or getattr(optimizer, "_step_supports_amp_scaling", False)
        if self._skip_on_host and skips_by_itself and found_inf.item():
            pass
        elif is_ours:
            result = state.step(self._check_scale_growth_tracker("step")[0], found_inf, *args, **kwargs)
        else:
            result = super().step(optimizer, *args, **kwargs)
        state.of_torch["stage"], state.was_skipped = OptState.STEPPED, found_inf
        state.skip_count.add_(found_inf.reshape(()))  # CUDA graphs need the same tensor
        return result

    def _skips(self, optimizer: Optimizer) -> tuple[Tensor, Tensor]:
        state = self._states.get(id(unwrapped(optimizer)))
        if state is None:
            zero = torch.zeros((), device=devices.HOST if self._scale is None else self._scale.device)
            return zero, zero
        return state.was_skipped, state.skip_count
