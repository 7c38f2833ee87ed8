"""Gradient scaling that never asks the device.

A :class:`GradScaler` is a ``torch.amp.GradScaler``, stage for stage. What it adds is that with an optimizer whose step
takes ``found_inf``, such as those of :mod:`polycast.syncfree`, nothing is read back: one pass over the gradients finds
what is not finite, and the step unscales, clips and skips by itself, on the device.
"""

import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.amp.grad_scaler import OptState, _refresh_per_optimizer_state

from polycast import backends
from polycast._clipping import check_clipping
from polycast._compiled import update_scale
from polycast._notices import Notices
from polycast._recording_scaler import RecordingGradScaler
from polycast._scaled_step import ScaledStep, SyncFreeStep, any_of, kind_of, read, takes_found_inf
from polycast._scaler_arguments import check_numbers

Optimizer = torch.optim.Optimizer
T = TypeVar("T")


class GradScaler(RecordingGradScaler):
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
        ValueError: The bounds do not enclose ``init_scale``, or there is no such device.
        TypeError: An argument is of another type than it should be.
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
        kind = "" if device is None else backends.known_type(device)
        check_numbers(
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            min_scale=min_scale,
            max_scale=max_scale,
        )
        if not min_scale <= init_scale <= max_scale:
            raise ValueError(
                f"init_scale is {init_scale}, outside of min_scale={min_scale} and max_scale={max_scale}; "
                "choose bounds that enclose it"
            )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            super().__init__(kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        for warning in caught:  # that there is no such device, told to the caller
            warnings.warn(warning.message, warning.category, stacklevel=2)
        self._bounds = (min_scale, max_scale)
        self._report_skips = report_skips
        self._has_scaled = False
        self._batch = 0
        self._records = WeakKeyDictionary()
        self._notices = Notices()
        if not self._enabled:
            # It is a GradScaler, so its module cannot come before this one.
            from polycast._disabled_scaler import DisabledGradScaler

            self.__class__ = DisabledGradScaler

    def scale(self, outputs: T) -> T:
        """Multiply outputs, a tensor or nested lists of them, by the scale, as ``torch.amp.GradScaler.scale`` does."""
        self._has_scaled = True
        scaled: T = super().scale(outputs)  # type: ignore[call-overload]
        return scaled

    @_disable_dynamo
    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the scale, in place, as ``torch.amp.GradScaler.unscale_`` does.

        Raises:
            RuntimeError: As in torch: it was called since the last ``update``. ``clip_grad_norm`` in an earlier batch
                counts as such a call.
        """
        if self._enabled and self._scale is not None:
            self._refuse_another_batch(self._per_optimizer_states[id(optimizer)], self._current_batch())
        super().unscale_(optimizer)

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

    @_disable_dynamo
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
            RuntimeError: The optimizer was stepped since the last ``update``, or clipped in an earlier batch: one that
                is dropped after a look at its gradients ends with ``update``, too.

        Example: see :class:`GradScaler`.
        """
        check_clipping(max_norm, norm_type)
        step = self._step_of(optimizer, "clip_grad_norm")
        if step.state["stage"] is OptState.STEPPED:
            raise RuntimeError("clip_grad_norm() is being called after step().")
        batch = self._current_batch()
        self._refuse_another_batch(step.state, batch)
        if step.state["stage"] is OptState.READY:
            step.state["clipped_in"] = batch
        return step.clip(max_norm, norm_type)

    @_disable_dynamo
    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Step an optimizer, unless its gradients hold an infinity or a NaN.

        A sync-free optimizer skips by itself. One of torch's fused optimizers is told to. For any other it is read back
        once whether to step.

        Raises:
            RuntimeError: As in torch: the optimizer was stepped since the last ``update``, or a closure is given.
            AssertionError: As in torch: nothing was scaled, or no gradient was found.
        """
        is_torchs = not takes_found_inf(optimizer)
        if is_torchs and self._scale is not None:
            self._notices.tell_of_reads(optimizer, self._scale.device.type)
        if "closure" in kwargs or (any(args) and (self._report_skips or not is_torchs)):
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if is_torchs and not self._report_skips:  # torch looks at the gradients itself
            result = super().step(optimizer, *args, **kwargs)
            step = self._step_of(optimizer)
            step.record.count(step.found_inf())
            return result
        step = self._step_of(optimizer)
        found_inf = step.look()
        if self._report_skips and read(found_inf):
            result = None
            step.end()
        elif is_torchs:
            result = super().step(optimizer, *args, **kwargs)
        else:
            result = step.take(found_inf, **kwargs)
        step.record.count(found_inf)
        return result

    @_disable_dynamo
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
        steps = [self._step_of(optimizer) for optimizer in optimizers]
        found_inf = any_of([step.look() for step in steps], self._device_of_scale())
        reads = self._report_skips or not all(step.skips_by_itself for step in steps)
        is_skipped = reads and read(found_inf)
        for step in steps:
            step.record.count(found_inf)
            # Only report_skips keeps a sync-free optimizer from being called.
            if not is_skipped or (isinstance(step, SyncFreeStep) and not self._report_skips):
                step.take(found_inf)
            step.end()

    @_disable_dynamo
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
            found_inf
            for state in self._per_optimizer_states.values()
            for found_inf in state["found_inf_per_device"].values()
        ]
        assert len(found_infs) > 0, "No inf checks were recorded prior to update."
        found_inf = any_of(found_infs, scale.device)
        factors = self._growth_factor, self._backoff_factor, self._growth_interval
        update_scale(scale, growth_tracker, found_inf, *factors, *self._bounds)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` of this class or of torch's returned; the scale stays within the bounds."""
        super().load_state_dict(state_dict)
        self._init_scale = min(max(self._init_scale, self._bounds[0]), self._bounds[1])
        self._keep_bounds()

    def _keep_bounds(self) -> None:
        if self._scale is not None and self._bounds != (0.0, float("inf")):
            self._scale.clamp_(*self._bounds)

    def _lazy_init_scale_growth_tracker(self, dev: torch.device) -> None:
        super()._lazy_init_scale_growth_tracker(dev)
        self._device = self._device or dev.type
        self._notices.tell_if_needless(dev.type)

    def _current_batch(self) -> int:
        """Return a number that is another one if anything was scaled since it was last asked for."""
        self._batch += self._has_scaled
        self._has_scaled = False
        return self._batch

    def _refuse_another_batch(self, state: dict[str, Any], batch: int) -> None:
        if state["stage"] is not OptState.STEPPED and state.get("clipped_in", batch) != batch:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update(). clip_grad_norm() counts "
                "as such a call: call update() before the next batch, also after one that is dropped."
            )

    def _step_of(self, optimizer: Optimizer, asked: str = "step") -> ScaledStep:
        scale, _ = self._check_scale_growth_tracker(asked)
        return kind_of(optimizer)(self, scale, optimizer, self._record(optimizer))
