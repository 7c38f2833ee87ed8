"""Gradient scaling that never asks the device.

A :class:`GradScaler` is a ``torch.amp.GradScaler``, stage for stage. What it adds is that with an optimizer whose step
takes ``found_inf``, such as those of :mod:`polycast.syncfree`, nothing is read back: one pass over the gradients finds
what is not finite, and the step unscales, clips and skips by itself, on the device.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as TorchGradScaler
from torch.amp.grad_scaler import OptState, _refresh_per_optimizer_state

from polycast import backends, region
from polycast._compiled import gather_gradients, update_scale
from polycast._sharding import clip_in_place
from polycast._step_record import StepRecord

Optimizer = torch.optim.Optimizer


class GradScaler(TorchGradScaler):
    """A ``torch.amp.GradScaler`` for every device, without host reads.

    Args:
        device: A device type, "cpu", "cuda", "xla", ..., or a ``torch.device``; None takes that of the first outputs
            that are scaled. As in torch, "cuda" where torch finds neither CUDA nor torch_xla disables the scaler, with
            a warning.
        init_scale: The first scale.
        growth_factor: What the scale is multiplied by after ``growth_interval`` steps without an infinity or a NaN.
        backoff_factor: What it is multiplied by after a step with one.
        growth_interval: See ``growth_factor``.
        enabled: False gives a scaler that does nothing: ``scale`` returns its argument, ``step`` steps.
        min_scale: The scale never backs off below it.
        max_scale: The scale never grows above it.
        report_skips: Read back once in each step whether it is skipped, and then do not call ``optimizer.step``, for
            trainers that watch whether it is called.

    Raises:
        ValueError: The bounds do not enclose ``init_scale``.
        AssertionError: A factor is on the wrong side of 1, as in torch.

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
        >>> bool(scaler.skipped(optimizer))
        False

    Source: the documents of ``torch.amp.GradScaler`` and the AMP examples.
    """

    _device: str
    _per_optimizer_states: dict[int, dict[str, Any]]

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
        report_skips: bool = False,
    ) -> None:
        if not init_scale > 0:
            raise ValueError(f"init_scale is {init_scale}; it takes a positive number")
        if not min_scale <= init_scale <= max_scale:
            raise ValueError(
                f"init_scale is {init_scale}, outside of min_scale={min_scale} and max_scale={max_scale}; "
                "choose bounds that enclose it"
            )
        kind = "" if device is None else torch.device(device).type
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            super().__init__(kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        for warning in caught:  # that there is no such device, told to the caller
            warnings.warn(warning.message, warning.category, stacklevel=2)
        self._bounds = (min_scale, max_scale)
        self._report_skips = report_skips
        self._records: WeakKeyDictionary[Optimizer, StepRecord] = WeakKeyDictionary()
        self._told: set[str] = set()
        if not self._enabled:
            self.__class__ = DisabledGradScaler

    def unscale(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return tensors divided by the scale, such as what ``torch.autograd.grad`` gave for scaled outputs.

        The gradients of an optimizer are divided in place by ``unscale_``.

        Example:
            >>> import torch, polycast
            >>> scaler = polycast.GradScaler(init_scale=4.0)
            >>> weight = torch.ones(2, requires_grad=True)
            >>> grads = torch.autograd.grad(scaler.scale((3 * weight).sum()), [weight])
            >>> scaler.unscale(grads)
            [tensor([3., 3.])]
        """
        scale, _ = self._check_scale_growth_tracker("unscale")
        inverse = scale.double().reciprocal().float()
        return [tensor * inverse.to(tensor.device, non_blocking=True) for tensor in tensors]

    def clip_grad_norm(self, optimizer: Optimizer, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Have the next step of an optimizer clip the norm of its gradients, all together.

        With a sync-free optimizer no gradient changes, hence no underscore: one pass computes the norm and looks for
        infinities and NaNs, and the step multiplies in registers. So a hook that looks at the gradients sees them
        scaled and unclipped. With any other optimizer the gradients are unscaled and clipped here, in place, and a
        disabled scaler clips every optimizer's in place.

        It goes before or after ``unscale_``. Of several calls each clips what the ones before leave.

        Args:
            optimizer: What will be stepped.
            max_norm: The largest norm that the unscaled gradients may have.
            norm_type: 1, 2, another positive number, or infinity.

        Returns:
            The norm of the unscaled gradients before this clipping, one element on the device of the scale. Nothing is
            read back. It is not finite where a gradient is not.

        Raises:
            ValueError: ``norm_type`` or ``max_norm`` is no positive number.
            RuntimeError: The optimizer was stepped since the last ``update``.

        Example: see :class:`GradScaler`.
        """
        scale, _ = self._check_scale_growth_tracker("clip_grad_norm")
        _check_clipping(max_norm, norm_type)
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("clip_grad_norm() is being called after step().")
        if not takes_found_inf(optimizer):
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            return _clip_in_place(optimizer, max_norm, norm_type)
        norm = self._record(optimizer).measure(optimizer, norm_type, scale.device)
        if state["stage"] is OptState.READY:
            state["found_inf_per_device"] = self._record(optimizer).found_inf
            norm = norm / scale
        clip_coef = state.get("clip_coef")
        if clip_coef is not None:
            norm = norm * clip_coef
        # As torch.nn.utils.clip_grad_norm_ computes it.
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0).float()
        state["clip_coef"] = factor if clip_coef is None else clip_coef * factor
        return norm

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Step an optimizer, unless its gradients hold an infinity or a NaN.

        A sync-free optimizer skips by itself. One of torch's fused optimizers is told to. For any other it is read back
        once whether to step.

        Raises:
            RuntimeError: As in torch: the optimizer was stepped since the last ``update``, or a closure is given.
            AssertionError: As in torch: nothing was scaled, or no gradient was found.
        """
        sync_free = takes_found_inf(optimizer)
        if not sync_free:
            self._tell_of_reads(optimizer)
        if sync_free or self._report_skips:
            self._prepare_step(optimizer, args, kwargs)
        if self._report_skips and self._found_inf(optimizer).item():
            self._per_optimizer_states[id(optimizer)]["stage"] = OptState.STEPPED
            result = None
        elif sync_free:
            result = self._step_sync_free(optimizer, self._found_inf(optimizer), kwargs)
        else:
            result = super().step(optimizer, *args, **kwargs)
        self._record(optimizer).count(self._found_inf(optimizer))
        return result

    def step_together(self, *optimizers: Optimizer) -> None:
        """Step several optimizers, or none of them if a gradient of any holds an infinity or a NaN.

        Nothing is read back if all of them are sync-free, or fused ones of torch's. It counts as the step of each.

        Example:
            >>> import torch, polycast
            >>> a, b = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
            >>> optimizers = [polycast.syncfree.SGD([param], lr=1.0) for param in (a, b)]
            >>> scaler = polycast.GradScaler()
            >>> scaler.scale(a * b * float("inf")).backward()
            >>> scaler.step_together(*optimizers)
            >>> scaler.update()
            >>> a.item(), b.item(), scaler.get_scale()
            (1.0, 1.0, 32768.0)
        """
        if len(set(map(id, optimizers))) < len(optimizers):
            raise ValueError("step_together was given one optimizer twice; name each once")
        for optimizer in optimizers:
            self._prepare_step(optimizer, (), {})
        found_inf = self._combined([self._found_inf(optimizer) for optimizer in optimizers])
        reads = self._report_skips or not all(map(_steps_by_itself, optimizers))
        is_skipped = reads and bool(found_inf.item())
        for optimizer in optimizers:
            self._record(optimizer).count(found_inf)
            if takes_found_inf(optimizer) and not (is_skipped and self._report_skips):
                self._step_sync_free(optimizer, found_inf, {})
            elif not is_skipped:
                self._step_others(optimizer, found_inf)
            self._per_optimizer_states[id(optimizer)]["stage"] = OptState.STEPPED

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale for the next iteration: back off after a skipped step, grow after enough real ones.

        Source: ``torch.amp.GradScaler.update``; here within ``min_scale`` and ``max_scale``.
        """
        if new_scale is not None:
            super().update(new_scale)
            self._keep_bounds()
            return
        scale, growth_tracker = self._check_scale_growth_tracker("update")
        found_infs = [
            found_inf.to(scale.device, non_blocking=True)
            for state in self._per_optimizer_states.values()
            for found_inf in state["found_inf_per_device"].values()
        ]
        assert len(found_infs) > 0, "No inf checks were recorded prior to update."
        update_scale(
            scale,
            growth_tracker,
            self._combined(found_infs),
            self._growth_factor,
            self._backoff_factor,
            self._growth_interval,
            *self._bounds,
        )
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` of this class or of torch's returned; the scale stays within the bounds."""
        super().load_state_dict(state_dict)
        self._init_scale = min(max(self._init_scale, self._bounds[0]), self._bounds[1])
        self._keep_bounds()

    def _keep_bounds(self) -> None:
        if self._scale is not None and self._bounds != (0.0, float("inf")):
            self._scale.clamp_(*self._bounds)

    def step_count(self, optimizer: Optimizer) -> int:
        """Return how many times an optimizer was stepped, the skipped steps included."""
        return self._record(optimizer).steps

    def skipped(self, optimizer: Optimizer) -> Tensor:
        """Return whether the last step of an optimizer was skipped: one bool, on the device of the scale."""
        return self._record(optimizer).last(self._device_of_scale())

    def skip_count(self, optimizer: Optimizer) -> Tensor:
        """Return how many steps of an optimizer were skipped: one int64, on the device of the scale."""
        return self._record(optimizer).total(self._device_of_scale())

    def non_finite(self, optimizer: Optimizer) -> list[str]:
        """Return which parameters had gradients that were not finite when they were last looked at.

        Names are those that the optimizer was given, else "param_groups[0]['params'][3]". What was found is kept until
        the gradients are looked at again, and read back only here.
        """
        return self._record(optimizer).non_finite(optimizer)

    def _prepare_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise what torch raises before a step, and look for infinities and NaNs if nobody has."""
        if "closure" in kwargs or args:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if not _steps_by_itself(optimizer):
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
        elif not state["found_inf_per_device"]:
            self._check_inf_per_device(optimizer)
        assert len(state["found_inf_per_device"]) > 0, "No inf checks were recorded for this optimizer."

    def _step_sync_free(self, optimizer: Optimizer, found_inf: Tensor, kwargs: dict[str, Any]) -> float | None:
        state = self._per_optimizer_states[id(optimizer)]
        grad_scale = self._scale if state["stage"] is OptState.READY else None
        step: Callable[..., float | None] = optimizer.step
        result = step(**kwargs, found_inf=found_inf, grad_scale=grad_scale, clip_coef=state.get("clip_coef"))
        state["stage"] = OptState.STEPPED
        return result

    def _step_others(self, optimizer: Optimizer, found_inf: Tensor) -> None:
        """Step one of torch's optimizers; a fused one is told by attributes, which is its protocol."""
        if not _steps_by_itself(optimizer):
            optimizer.step()
            return
        is_scaled = self._per_optimizer_states[id(optimizer)]["stage"] is OptState.READY
        fused: Any = optimizer
        fused.grad_scale, fused.found_inf = self._scale if is_scaled else None, found_inf
        try:
            optimizer.step()
        finally:
            del fused.grad_scale, fused.found_inf

    def _maybe_opt_step(
        self, optimizer: Optimizer, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> float | None:
        found_inf = self._combined(list(optimizer_state["found_inf_per_device"].values()))
        return None if found_inf.item() else cast("float | None", optimizer.step(*args, **kwargs))

    def _unscale_grads_(
        self,
        optimizer: Optimizer,
        inv_scale: Tensor,
        found_inf: Tensor,  # noqa: ARG002
        allow_fp16: bool,
    ) -> dict[torch.device, Tensor]:
        gathered = gather_gradients(optimizer.param_groups, coalesce_in_place=True)
        if not allow_fp16 and any(gradients.has_float16() for gradients in gathered):
            raise ValueError("Attempting to unscale FP16 gradients.")
        record = self._record(optimizer)
        record.unscale(gathered, inv_scale)
        return record.found_inf

    def _check_inf_per_device(self, optimizer: Optimizer) -> dict[Any, Any]:
        record = self._record(optimizer)
        record.check(optimizer)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = record.found_inf
        return record.found_inf

    def _lazy_init_scale_growth_tracker(self, dev: torch.device) -> None:
        super()._lazy_init_scale_growth_tracker(dev)
        self._device = self._device or dev.type
        reason = backends.why_not_scale(dev.type) or region.why_not_scale(dev.type)
        if reason:
            self._tell(f"gradients need no scaling: {reason}; GradScaler(enabled=False) leaves it out")

    def _tell_of_reads(self, optimizer: Optimizer) -> None:
        name = type(optimizer).__name__
        if self._scale is not None and backends.reads_stall(self._scale.device.type):
            self._tell(
                f"each step of {name} waits until the device has told whether to skip it; "
                "an optimizer of polycast.syncfree does not"
            )

    def _tell(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            warnings.warn(message, stacklevel=4)

    def _record(self, optimizer: Optimizer) -> StepRecord:
        return self._records.setdefault(optimizer, StepRecord())

    def _found_inf(self, optimizer: Optimizer) -> Tensor:
        scale, _ = self._check_scale_growth_tracker("step")
        found_infs = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
        return self._combined([found_inf.to(scale.device, non_blocking=True) for found_inf in found_infs])

    def _combined(self, found_infs: list[Tensor]) -> Tensor:
        """Return one element that is 1 where any is, else 0; the tensors are on one device.

        Torch's fused optimizers skip where it is 1, and for no other value.
        """
        if not found_infs:
            return torch.zeros((), device=self._device_of_scale())
        return found_infs[0] if len(found_infs) == 1 else torch.stack(found_infs).max()

    def _device_of_scale(self) -> torch.device:
        return torch.device("cpu") if self._scale is None else self._scale.device

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_records": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_records": WeakKeyDictionary()})


class DisabledGradScaler(GradScaler):
    """What ``GradScaler(enabled=False)`` gives: it scales nothing, and steps."""

    def unscale(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors."""
        return list(tensors)

    def clip_grad_norm(self, optimizer: Optimizer, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip the gradients in place, as ``torch.nn.utils.clip_grad_norm_`` does."""
        _check_clipping(max_norm, norm_type)
        return _clip_in_place(optimizer, max_norm, norm_type)

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Step the optimizer."""
        result = cast("float | None", optimizer.step(*args, **kwargs))
        self._record(optimizer).steps += 1
        return result

    def step_together(self, *optimizers: Optimizer) -> None:
        """Step the optimizers."""
        for optimizer in optimizers:
            self.step(optimizer)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Do nothing."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Do nothing."""

    def skipped(self, optimizer: Optimizer) -> Tensor:  # noqa: ARG002
        """Return False: every step was a real one."""
        return torch.zeros((), dtype=torch.bool)

    def skip_count(self, optimizer: Optimizer) -> Tensor:  # noqa: ARG002
        """Return 0."""
        return torch.zeros((), dtype=torch.int64)

    def non_finite(self, optimizer: Optimizer) -> list[str]:  # noqa: ARG002
        """Return nothing: no gradient was looked at."""
        return []


def _steps_by_itself(optimizer: Optimizer) -> bool:
    """Return whether an optimizer skips without being told by the host: a sync-free one, or a fused one of torch's."""
    return takes_found_inf(optimizer) or getattr(optimizer, "_step_supports_amp_scaling", False)


def takes_found_inf(optimizer: Optimizer) -> bool:
    """Return whether the step of an optimizer takes found_inf, grad_scale and clip_coef."""
    return bool(getattr(optimizer, "takes_found_inf", False))


def _clip_in_place(optimizer: Optimizer, max_norm: float, norm_type: float) -> Tensor:
    """Do what ``torch.nn.utils.clip_grad_norm_`` does, which torch_xla replaces by one that loses a NaN."""
    sharded_norm = clip_in_place(optimizer, max_norm, norm_type)
    if sharded_norm is not None:
        return sharded_norm
    params = [param for group in optimizer.param_groups for param in group["params"] if param.grad is not None]
    norm = torch.nn.utils.get_total_norm([param.grad for param in params], norm_type)
    torch.nn.utils.clip_grads_with_norm_(params, max_norm, norm)
    return norm


def _check_clipping(max_norm: float, norm_type: float) -> None:
    if not float(max_norm) > 0:
        raise ValueError(f"max_norm is {max_norm}; it takes a positive number")
    if not float(norm_type) > 0:
        raise ValueError(f"norm_type is {norm_type}; it takes a positive number, or infinity")
