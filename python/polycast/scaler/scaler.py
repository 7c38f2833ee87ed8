"""``torch.amp.GradScaler`` for every device, without syncs where the optimizer allows it."""

import warnings
from collections import defaultdict
from numbers import Real
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.amp.grad_scaler import OptState, _refresh_per_optimizer_state

from polycast import _warnings, backends
from polycast.scaler import torch_foreach  # noqa: F401
from polycast.scaler.arguments import (
    check_bounds,
    check_clipping,
    check_flags,
    check_interval,
    check_new_scale,
    check_numbers,
    check_outputs,
    check_state,
)
from polycast.scaler.clipping import clip_coef, clip_in_place
from polycast.scaler.record import Record
from polycast.scaler.recording import no_records
from polycast.scaler.stepping import SteppingScaler
from polycast.scaler.wrapping import has_lone_shards
from polycast.scope.compiled_code import disabled
from polycast.syncfree.batches import call

Optimizer = torch.optim.Optimizer
T = TypeVar("T")

_ALREADY_UNSCALED = (
    "unscale_() has already been called on this optimizer since the last update(). Call update() before the next "
    "batch, also after one that is dropped; clip_grad_norm() counts as a call of unscale_(), and goes before the next "
    "loss is scaled."
)


class GradScaler(SteppingScaler):
    """A ``torch.amp.GradScaler`` for every device, without syncs.

    With an optimizer whose step takes ``found_inf``, such as those of :mod:`polycast.syncfree`, a step never syncs:
    one pass over the gradients checks them, and the step unscales, clips and skips by itself.

    Each ``update`` sets the scale. If a gradient that was checked since the last update was not finite, the scale is
    multiplied by ``backoff_factor``, but not below ``min_scale``. Otherwise the iteration was a good one. After
    ``growth_interval`` good ones in a row the scale is multiplied by ``growth_factor``, but not above ``max_scale`` nor
    to infinity. Either change starts the count anew. ``step``, ``unscale_`` and ``clip_grad_norm`` check the gradients:
    if you skip a batch after one of the latter two, still call ``update``.

    bfloat16 has float32's range, so its gradients need no scaling. ``GradScaler(init_scale=1.0, min_scale=1.0,
    max_scale=1.0)`` is a guard that only skips steps whose gradients are not finite.

    If one scaler serves sharded optimizers and plain ones, all ranks must use the same optimizers in each iteration:
    what any rank finds in any of them counts on every rank.

    Args:
        device: A device type, "cpu", "cuda", "xla", ..., or a ``torch.device``. None takes the device of the first
            outputs that are scaled. As in torch, "cuda" disables the scaler, with a warning, if torch finds neither
            CUDA nor torch_xla.
        init_scale: The first scale.
        growth_factor: The factor of the scale after ``growth_interval`` good iterations.
        backoff_factor: The factor of the scale after an iteration with a gradient that is not finite.
        growth_interval: The number of good iterations in a row after which the scale grows.
        enabled: False gives a scaler that does nothing: ``scale`` returns its argument, ``step`` steps.
        min_scale: The lowest scale, at least the smallest normal number of float32.
        max_scale: The highest scale.
        skip_on_host: Read once in each step whether it is skipped, and then do not call ``optimizer.step``. This is for
            trainers that watch whether it is called.
        process_group: The ranks of sharded parameters that are no DTensors, as FSDP1's
            (``torch.distributed.group.WORLD``): each check of gradients is reduced over them. Or the ranks of a
            pipeline's stages, each of which otherwise skips alone, as in torch. DTensors need none.

    Raises:
        ValueError: ``init_scale`` is not between the bounds, or there is no such device.
        TypeError: ``enabled`` or ``skip_on_host`` is a text, ``growth_interval`` is no whole number, another number is
            none, or the device is one.
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
        >>> bool(scaler.skipped())
        False

    Source: the documents of ``torch.amp.GradScaler`` and the AMP examples.
    """

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
        check_flags(enabled=enabled, skip_on_host=skip_on_host)
        check_numbers(
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            min_scale=min_scale,
            max_scale=max_scale,
        )
        check_interval(growth_interval)
        self._bounds = check_bounds(init_scale, min_scale, max_scale)
        device_type = "" if device is None else backends.known_device_type(device)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            super().__init__(device_type, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        for warning in caught:  # there is no such device: the caller's line is the one to show
            _warnings.warn(str(warning.message))
        self._skip_on_host, self._process_group = skip_on_host, process_group
        self._told: set[str] = set()
        self._records = no_records()
        # The batch that gradients belong to: a new one begins with the next check after a call of scale().
        self._batch, self._has_scaled = 0, False

    def scale(self, outputs: T) -> T:
        """Multiply outputs, a tensor or nested lists of them, by the scale, as ``torch.amp.GradScaler.scale`` does.

        Raises:
            ValueError: They hold no tensors, or are a dictionary, such as what a model returns.
        """
        if self._enabled and not isinstance(outputs, Tensor):
            check_outputs(outputs)
        self._has_scaled = True
        scaled: T = super().scale(outputs)  # type: ignore[call-overload]
        return scaled

    @disabled
    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the scale, in place, as ``torch.amp.GradScaler.unscale_`` does.

        Raises:
            RuntimeError: As in torch: it was called since the last ``update``, or the optimizer was stepped.
                ``clip_grad_norm`` in an earlier batch counts as such a call.
            ValueError: As in torch: a gradient is of float16.
        """
        if self._enabled:
            record, _ = self._current(optimizer, "unscale_")
            if record.state["stage"] is OptState.UNSCALED:
                raise RuntimeError(_ALREADY_UNSCALED)
            self._refuse_another_batch(record)
            super().unscale_(optimizer)
            record.batch = self._batch

    @disabled
    def clip_grad_norm(self, optimizer: Optimizer, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip the norm of an optimizer's gradients, all together, in its next step.

        With a sync-free optimizer no gradient changes here, hence no underscore: one pass computes the norm and checks
        the gradients, and the step multiplies them, as ``step`` says. Call it before or after ``unscale_``. With any
        other optimizer, and with a disabled scaler, the gradients are clipped here in place, unscaled first if needed.
        Each of several calls clips what the earlier ones leave.

        Args:
            optimizer: The optimizer that will be stepped.
            max_norm: The largest norm that the unscaled gradients may have.
            norm_type: 1, 2, another positive number, or infinity.

        Returns:
            The norm of the unscaled gradients before this clipping, one element on the device of the scale. It
            takes no sync. It is not finite if a gradient is not.

        Raises:
            TypeError: The argument is no optimizer.
            ValueError: ``norm_type`` or ``max_norm`` is no positive number.
            RuntimeError: The optimizer was stepped since the last ``update``. Or its gradients were unscaled or clipped
                in an earlier batch, before a loss was last scaled: ``update`` was left out. Or parameters are sharded
                and no DTensors, so the scaler cannot know which gradients each rank holds whole.

        Example: see :class:`GradScaler`.
        """
        record = self._record(optimizer)
        max_norm, norm_type = check_clipping(max_norm, norm_type)
        if self._process_group is not None or (not self._enabled and has_lone_shards(optimizer)):
            raise RuntimeError(
                "clip_grad_norm does not know which gradients the ranks share, and which each holds whole; call "
                "unscale_(optimizer), then the clip_grad_norm_ of the sharded module"
            )
        if not self._enabled:
            return clip_in_place(optimizer, max_norm, norm_type)
        record, scale = self._current(optimizer, "clip_grad_norm")
        if record.state["stage"] is OptState.STEPPED:
            raise RuntimeError("clip_grad_norm() is being called after step().")
        self._refuse_another_batch(record)
        is_scaled, earlier = record.state["stage"] is OptState.READY, record.clip_coef
        if not record.is_sync_free:
            if is_scaled:
                self.unscale_(optimizer)
            return clip_in_place(optimizer, max_norm, norm_type)
        norm, found_infs = record.measure(optimizer, norm_type, scale.device)
        if is_scaled:
            norm = norm / scale
            if earlier is None:
                record.state["found_inf_per_device"], record.batch = found_infs, self._batch
        norm = norm if earlier is None else norm * earlier
        coef = clip_coef(norm, max_norm)
        record.clip_coef = coef if earlier is None else coef * earlier
        return norm

    @disabled
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale for the next iteration, by the rule of :class:`GradScaler`, or to a new one.

        If you skip a batch after ``unscale_`` or ``clip_grad_norm``, still call it: what was found counts. If only some
        of the optimizers are sharded, or on other meshes, it takes one more sum for each mesh.

        Raises:
            AssertionError: As in torch: nothing was scaled, or no gradient was checked.
            TypeError: The new scale is neither a number nor a tensor.

        Source: ``torch.amp.GradScaler.update``; here within ``min_scale`` and ``max_scale``.
        """
        for record in self._records.values():
            record.collected = None
        if not self._enabled or new_scale is not None:
            check_new_scale(new_scale)
            super().update(float(new_scale) if isinstance(new_scale, Real) else new_scale)
            self._keep_bounds()
            return
        scale, growth_tracker = self._check_scale_growth_tracker("update")
        found_inf = self._found_in(list(self._per_optimizer_states.values()))
        if found_inf is None:
            raise AssertionError(
                "No inf checks were recorded prior to update. No optimizer that was given to step, unscale_ or "
                "clip_grad_norm since the last one has a parameter with a gradient; leave update out where nothing was"
            )
        factors = self._growth_factor, self._backoff_factor, self._growth_interval
        operator = torch.ops.polycast.update_scale_.default
        call(operator, scale.device, scale, growth_tracker, found_inf, *factors, *self._bounds)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good iterations in a row the scale grows.

        Raises:
            TypeError: It is no whole number.
        """
        check_interval(new_interval)
        super().set_growth_interval(new_interval)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` of this class or of torch's returned; the scale stays within the bounds.

        Raises:
            RuntimeError: As in torch: it is empty.
            ValueError: It is the state of something else.
            TypeError: It is no dictionary, or its growth interval is no whole number.
        """
        if self._enabled:
            check_state(state_dict)
        super().load_state_dict(state_dict)
        if self._enabled:
            self._init_scale = min(max(self._init_scale, self._bounds[0]), self._bounds[1])
            self._keep_bounds()

    def __repr__(self) -> str:
        """Return the settings. The scale is left out: it would have to be read."""
        if not self._enabled:
            return f"{type(self).__name__}(enabled=False)"
        low, high = self._bounds
        return (
            f"{type(self).__name__}(device={self._device!r}, init_scale={self._init_scale:g}, "
            f"growth_factor={self._growth_factor:g}, backoff_factor={self._backoff_factor:g}, "
            f"growth_interval={self._growth_interval}, min_scale={low:g}, max_scale={high:g}, "
            f"skip_on_host={self._skip_on_host})"
        )

    def _refuse_another_batch(self, record: Record) -> None:
        """Raise if gradients were checked before a loss was last scaled: what unscale_ would raise by itself."""
        self._batch += self._has_scaled
        self._has_scaled = False
        if record.state["stage"] is not OptState.STEPPED and record.batch not in (None, self._batch):
            raise RuntimeError(_ALREADY_UNSCALED)

    def _keep_bounds(self) -> None:
        if self._scale is not None:
            self._scale.clamp_(*self._bounds)
