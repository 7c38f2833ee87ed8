"""``torch.amp.GradScaler`` for every device, without host reads where the optimizer allows it."""

import warnings
from collections import defaultdict
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.amp.grad_scaler import GradScaler as TorchGradScaler
from torch.amp.grad_scaler import OptState, _refresh_per_optimizer_state
from torch.utils.weak import WeakIdKeyDictionary

from polycast import _caller, backends
from polycast.scaler.arguments import (
    check_bounds,
    check_clipping,
    check_flags,
    check_interval,
    check_sequence,
    check_state,
    not_an_optimizer,
)
from polycast.scaler.clipping import clip_coef, clip_in_place
from polycast.scaler.record import Record
from polycast.scaler.sharding import any_in_group, any_of, any_of_looks
from polycast.scaler.visibility import can_be_seen
from polycast.scaler.wrapping import has_lone_shards, unwrapped
from polycast.syncfree.batches import call

Optimizer = torch.optim.Optimizer
T = TypeVar("T")

_MANY = 20  # skipped steps in a row that are worth a warning
_ALREADY_UNSCALED = (
    "unscale_() has already been called on this optimizer since the last update(). Call update() before the next "
    "batch, also after one that is dropped; clip_grad_norm() counts as a call of unscale_(), and goes before the next "
    "loss is scaled."
)


class GradScaler(TorchGradScaler):
    """A ``torch.amp.GradScaler`` for every device, without host reads.

    With an optimizer whose step takes ``found_inf``, such as those of :mod:`polycast.syncfree`, nothing is read back:
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
        TypeError: ``enabled`` or ``skip_on_host`` is a text, or ``growth_interval`` is no whole number.
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
    _scale: Tensor | None = None
    _per_optimizer_states: dict[int, dict[str, Any]]
    _records: MutableMapping[Optimizer, Record]  # by identity: optimizers may define equality and hash

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
        check_interval(growth_interval)
        self._bounds = check_bounds(init_scale, min_scale, max_scale)
        kind = "" if device is None else backends.known_device_type(device)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            super().__init__(kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        for warning in caught:  # there is no such device: the caller's line is the one to show
            warnings.warn(warning.message, warning.category, stacklevel=2)
        self._skip_on_host, self._process_group = skip_on_host, process_group
        self._told: set[str] = set()
        self._records = _no_records()
        # The batch that gradients belong to: a new one begins with the next check after a call of scale().
        self._batch, self._has_scaled = 0, False

    def scale(self, outputs: T) -> T:
        """Multiply outputs, a tensor or nested lists of them, by the scale, as ``torch.amp.GradScaler.scale`` does."""
        self._has_scaled = True
        scaled: T = super().scale(outputs)  # type: ignore[call-overload]
        return scaled

    def unscale(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return tensors divided by the scale, such as what ``torch.autograd.grad`` gave for scaled outputs.

        ``unscale_`` divides the gradients of an optimizer, in place.

        Raises:
            TypeError: It is no sequence of tensors.

        Example:
            >>> import torch, polycast
            >>> scaler = polycast.GradScaler(init_scale=4.0)
            >>> weight = torch.ones(2, requires_grad=True)
            >>> grads = torch.autograd.grad(scaler.scale((3 * weight).sum()), [weight])
            >>> scaler.unscale(grads)
            [tensor([3., 3.])]
        """
        check_sequence(tensors)
        if not self._enabled:
            return list(tensors)
        inverse = self._check_scale_growth_tracker("unscale")[0].reciprocal()
        return [tensor * inverse.to(tensor.device, non_blocking=True) for tensor in tensors]

    @_disable_dynamo
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

    @_disable_dynamo
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
            The norm of the unscaled gradients before this clipping, one element on the device of the scale. Nothing is
            read back. It is not finite if a gradient is not.

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

    @_disable_dynamo
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
                self._record(optimizer).steps += 1
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

    @_disable_dynamo
    def step_together(self, *optimizers: Optimizer) -> None:
        """Step all optimizers, or none if a gradient of any is not finite. It counts as the step of each.

        Nothing is read back if all of them are sync-free, or fused ones of torch's. If one is sharded, what any rank of
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

    @_disable_dynamo
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale for the next iteration, by the rule of :class:`GradScaler`, or to a new one.

        If you skip a batch after ``unscale_`` or ``clip_grad_norm``, still call it: what was found counts. If only some
        of the optimizers are sharded, or on other meshes, it takes one more sum for each mesh.

        Raises:
            AssertionError: As in torch: nothing was scaled, or no gradient was checked.

        Source: ``torch.amp.GradScaler.update``; here within ``min_scale`` and ``max_scale``.
        """
        for record in self._records.values():
            record.collected = None
        if not self._enabled or new_scale is not None:
            super().update(new_scale)
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

    def step_count(self, optimizer: Optimizer) -> int:
        """Return how many times an optimizer was stepped, the skipped steps included."""
        return self._record(optimizer).steps

    def skipped(self, optimizer: Optimizer) -> Tensor:
        """Return whether the last step of an optimizer was skipped: one bool, on the device of the scale."""
        return self._record(optimizer).skips(self._device_of_scale()).last != 0

    def skip_count(self, optimizer: Optimizer) -> Tensor:
        """Return how many steps of an optimizer were skipped: one int64, on the device of the scale."""
        return self._record(optimizer).skips(self._device_of_scale()).total.to(torch.int64)

    def non_finite(self, optimizer: Optimizer) -> list[str]:
        """Return the names of the parameters whose gradients were not finite in the last check; reads from the device.

        Names are those that the optimizer was given, else "param_groups[0]['params'][3]". Of DTensors it names what any
        rank of their mesh found, of other parameters what this rank found. A disabled scaler checks the gradients that
        are there now.
        """
        record = self._record(optimizer)
        if not self._enabled:
            record.look(optimizer)
            record.collected = None
        return record.non_finite(optimizer)

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good iterations in a row the scale grows.

        Raises:
            TypeError: It is no whole number.
        """
        check_interval(new_interval)
        super().set_growth_interval(new_interval)

    def get_scale(self) -> float:
        """Return the scale, or 1.0 if the scaler is disabled; reads from the device.

        It warns, once, if the scale is below 1, or as low as it may be, and 20 or more steps of an optimizer were
        skipped in a row, as far as such reads show. Only this method and ``state_dict`` warn of it: steps read nothing.
        """
        scale = super().get_scale()
        if scale < 1 or scale <= self._bounds[0]:
            for optimizer, record in self._records.items():
                if record.row(self._device_of_scale()) >= _MANY:
                    self._warn_once(
                        f"{_MANY} or more steps of {type(optimizer).__name__} were skipped in a row: its gradients are "
                        "not finite, whatever the scale; scaler.non_finite(optimizer) names them"
                    )
        return scale

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` of this class or of torch's returned; the scale stays within the bounds.

        Raises:
            RuntimeError: As in torch: it is empty.
            ValueError: It is the state of something else.
            TypeError: Its growth interval is no whole number.
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

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_records": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_records": _no_records()})

    # What torch's scaler calls within itself, and a subclass may override.

    def _lazy_init_scale_growth_tracker(self, dev: torch.device) -> None:
        # A checkpoint may be loaded before anything was scaled: then dev is _device, a text that may be empty.
        super()._lazy_init_scale_growth_tracker(dev or torch.device(backends.current()))
        self._device = self._device or self._device_of_scale().type

    def _unscale_grads_(
        self,
        optimizer: Optimizer,
        inv_scale: Tensor,
        found_inf: Tensor,  # noqa: ARG002
        allow_fp16: bool,
    ) -> dict[torch.device, Tensor]:
        found = self._record(optimizer).unscale(optimizer, inv_scale, allow_fp16)
        return found if self._process_group is None else self._reduced(found)

    def _check_inf_per_device(self, optimizer: Optimizer) -> dict[Any, Any]:
        """Check the gradients, unless step_together has: torch's step calls this again."""
        state = self._per_optimizer_states[id(optimizer)]
        if not state["found_inf_per_device"]:
            found = (state["record"] if "record" in state else self._record(optimizer)).look(optimizer)
            state["found_inf_per_device"] = found if self._process_group is None else self._reduced(found)
        found_infs: dict[Any, Any] = state["found_inf_per_device"]
        return found_infs

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

    # What is known of optimizers.

    def _record(self, optimizer: Optimizer) -> Record:
        """Return the record of an optimizer, which is also that of its wrappers."""
        if not hasattr(optimizer, "param_groups"):
            raise not_an_optimizer(optimizer)
        if hasattr(optimizer, "optimizer"):
            optimizer = unwrapped(optimizer)
        record: Record | None = self._records.get(optimizer)
        if record is None:
            if self._enabled and self._process_group is None and has_lone_shards(optimizer):
                raise RuntimeError(
                    "FSDP1's parameters tell of no mesh, so each rank would scale and skip by itself; make the scaler "
                    "by GradScaler(process_group=torch.distributed.group.WORLD), or shard by fully_shard"
                )
            record = self._records[optimizer] = Record(optimizer)
        return record

    def _current(self, optimizer: Optimizer, asked: str) -> tuple[Record, Tensor]:
        """Return the record of an optimizer, in this iteration, and the scale; raise if nothing was scaled."""
        record, states = self._record(optimizer), self._per_optimizer_states
        scale, _ = self._check_scale_growth_tracker(asked)
        if hasattr(optimizer, "optimizer"):  # torch looks for the state of what it is given
            states[id(optimizer)] = states[id(unwrapped(optimizer))]
        state = states[id(optimizer)]
        if record.state is not state:  # the first call of this iteration
            state["record"] = record
            record.state, record.clip_coef, record.batch = state, None, None
        return record, scale

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

    def _refuse_another_batch(self, record: Record) -> None:
        """Raise if gradients were checked before a loss was last scaled: what unscale_ would raise by itself."""
        self._batch += self._has_scaled
        self._has_scaled = False
        if record.state["stage"] is not OptState.STEPPED and record.batch not in (None, self._batch):
            raise RuntimeError(_ALREADY_UNSCALED)

    def _reduced(self, found_infs: dict[torch.device, Tensor]) -> dict[torch.device, Tensor]:
        """Return what any rank of the process group found."""
        found_inf = any_in_group(list(found_infs.values()), self._device_of_scale(), self._process_group)
        return {found_inf.device: found_inf}

    def _found_in(self, states: Sequence[dict[str, Any]]) -> Tensor | None:
        """Return whether the checks of several optimizers found anything; None if there was no gradient."""
        found_infs = [found_inf for state in states for found_inf in state["found_inf_per_device"].values()]
        # The ranks of a process group agree already.
        looks = (
            [] if self._process_group is not None else [getattr(state.get("record"), "ranks", ()) for state in states]
        )
        found_inf = any_of_looks(found_infs, looks, self._device_of_scale())
        return found_inf if found_infs else None

    def _device_of_scale(self) -> torch.device:
        return torch.device("cpu") if self._scale is None else self._scale.device

    def _keep_bounds(self) -> None:
        if self._scale is not None:
            self._scale.clamp_(*self._bounds)

    def _warn_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            _caller.warn(message)


def _no_records() -> MutableMapping[Optimizer, Record]:
    """Return a dictionary that keeps no optimizer alive."""
    records: MutableMapping[Optimizer, Record] = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]
    return records
