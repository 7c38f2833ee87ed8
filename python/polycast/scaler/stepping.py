"""A gradient's way through GradScaler.step: checked, unscaled and clipped in the step or before it, or skipped."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import OptState

from polycast import _warnings, backends
from polycast.scaler.record import Record
from polycast.scaler.recording import RecordingScaler
from polycast.scaler.sharding import any_of
from polycast.scaler.visibility import can_be_seen
from polycast.scaler.wrapping import unwrapped
from polycast.scope.compiled_code import disabled

Optimizer = torch.optim.Optimizer


class SteppingScaler(RecordingScaler):
    """A base class of GradScaler, which steps optimizers."""

    _skip_on_host: bool
    _told: set[str]  # what it has warned of

    @disabled
    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Step an optimizer, unless its gradients hold an infinity or a NaN.

        A sync-free optimizer skips by itself, and so does a fused one of torch's. For any other, one read decides
        whether to step. A disabled scaler steps.

        A sync-free optimizer divides and clips the gradients in registers, so ``.grad`` stays scaled. If anybody can
        see gradients within the step, they are first unscaled and clipped in place, as in torch: if the optimizer or
        all optimizers have step hooks (other than polycast's own and the profiler's), or if ``optimizer.step`` is not
        the one of :mod:`polycast.syncfree`. A schedule of ``torch.optim.lr_scheduler`` changes nothing of this.

        Args:
            optimizer: Any.
            args, kwargs: For ``optimizer.step``. As in torch, a closure is taken by position only. It sees unscaled
                gradients, is not called if the step is skipped, and costs one read.

        Raises:
            TypeError: The argument is no optimizer.
            RuntimeError: As in torch: the optimizer was stepped since the last ``update``, or a closure is given by its
                name. Or FSDP1 shards its parameters, and the scaler has no ``process_group``.
            ValueError: As in torch: a gradient that is to be unscaled in place is of float16.
            AssertionError: As in torch: nothing was scaled, or no gradient was found on any rank.
        """
        if not self._enabled:
            if hasattr(optimizer, "param_groups"):  # torch steps whatever has a step
                self._record(optimizer)
            return super().step(optimizer, *args, **kwargs)
        record, scale = self._current(optimizer, "step")
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if not record.is_sync_free and backends.reads_stall(scale.device.type):
            self._warn_once(
                f"each step of {type(optimizer).__name__} waits until the device has told whether to skip it; "
                "an optimizer of polycast.syncfree does not"
            )
        result = None
        try:
            found_inf = self._check(optimizer, record, scale, *args[:1])
            if self._skip_on_host and bool(found_inf.item()):
                pass
            elif record.is_sync_free:
                result = self._maybe_opt_step(optimizer, record.state, *args, **kwargs)
            else:
                result = super().step(optimizer, *args, **kwargs)
        finally:
            record.collected = None
        record.count(found_inf)
        return result

    @disabled
    def step_together(self, *optimizers: Optimizer) -> None:
        """Step all optimizers, or none if a gradient of any is not finite. It counts as the step of each.

        It does not sync if all of them are sync-free, or fused ones of torch's. If one is sharded, what any rank of
        its mesh finds in any of them counts on all ranks, for ``update`` too. If they are not all sharded over the same
        meshes, that takes one more sum for each mesh.

        Raises:
            ValueError: One optimizer is given twice.
            TypeError, RuntimeError, AssertionError: As ``step``.

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
        if len(set(map(id, map(unwrapped, optimizers)))) < len(optimizers):
            raise ValueError("step_together was given one optimizer twice; name each once")
        if self._enabled:
            current = [self._current(optimizer, "step") for optimizer in optimizers]
            for optimizer, (record, scale) in zip(optimizers, current, strict=True):
                self._check(optimizer, record, scale)
            records = [record for record, _ in current]
            found_inf = self._found_in([record.state for record in records])
            ranks = tuple(dict.fromkeys(each for record in records for each in record.ranks))
            if found_inf is not None:
                for record in records:  # for the steps to find
                    record.state["found_inf_per_device"], record.ranks = {found_inf.device: found_inf}, ranks
        for optimizer in optimizers:
            self.step(optimizer)

    # What torch's scaler calls within itself, and a subclass may override.

    def _maybe_opt_step(
        self, optimizer: Optimizer, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> float | None:
        """Step a sync-free optimizer, which skips by itself, or any other unless it is to be skipped."""
        step: Callable[..., float | None] = optimizer.step
        record: Record = optimizer_state["record"]
        found_inf = record.found_inf
        assert found_inf is not None
        # The step of what wraps a sync-free optimizer does not skip by itself, and a closure would be called.
        has_closure = bool(args) and args[0] is not None
        if (has_closure or not getattr(optimizer, "takes_found_inf", False)) and bool(found_inf.item()):
            return None
        # Once gradients were unscaled in place there is nothing to divide by.
        grad_scale = self._scale if optimizer_state["stage"] is OptState.READY else None
        if hasattr(optimizer, "optimizer"):  # a wrapper may call this scaler's step itself
            optimizer, optimizer_state["stage"] = unwrapped(optimizer), OptState.STEPPED
        if not record.is_sync_free:
            return step(*args, **kwargs)
        if grad_scale is not None and getattr(optimizer, "grad_scale", None) is not None:
            grad_scale = grad_scale * optimizer.grad_scale  # type: ignore[attr-defined]
        # As attributes, torch's protocol for fused steps: a subclass's step may have a signature of its own.
        told: dict[str, Any] = {"found_inf": found_inf, "grad_scale": grad_scale, "clip_coef": record.clip_coef}
        told["_collected"], record.collected = record.collected, None
        vars(optimizer).update(told)
        try:
            return step(*args, **kwargs)
        finally:
            for name in told:
                delattr(optimizer, name)

    def _check(self, optimizer: Optimizer, record: Record, scale: Tensor, closure: Any = None) -> Tensor:
        """Check the gradients if nobody has, raise what torch raises before a step, and return found_inf.

        Gradients that can be seen within the step are unscaled and clipped here: see Note [Gradients within a step].
        """
        if record.state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        is_fused = getattr(optimizer, "_step_supports_amp_scaling", False)
        is_seen = record.is_sync_free and can_be_seen(optimizer, closure)
        if record.state["stage"] is OptState.READY and record.clip_coef is None:
            if is_fused or (record.is_sync_free and not is_seen):
                self._check_inf_per_device(optimizer)
            else:
                self.unscale_(optimizer)
        if is_seen and record.clip_coef is not None:
            is_scaled = record.state["stage"] is OptState.READY
            record.multiply(optimizer, record.clip_coef / scale if is_scaled else record.clip_coef)
            record.state["stage"], record.clip_coef = OptState.UNSCALED, None
        if is_seen:
            record.collected = None  # who sees the gradients may replace them, and nothing else must keep them then
        found_infs = record.state["found_inf_per_device"]
        if not found_infs and not is_fused:
            raise AssertionError(
                "No inf checks were recorded for this optimizer. No parameter of it had a gradient; call backward on "
                "what scale() returned before"
            )
        record.found_inf = any_of(list(found_infs.values()), scale.device)
        return record.found_inf

    def _warn_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            _warnings.warn(message)
