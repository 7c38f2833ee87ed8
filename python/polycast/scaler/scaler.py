"""The gradient scaler: ``torch.amp.GradScaler`` for every device, without host reads where the optimizer allows it."""

import warnings
from collections import defaultdict
from collections.abc import MutableMapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.amp.grad_scaler import OptState, _refresh_per_optimizer_state
from torch.utils.weak import WeakIdKeyDictionary

from polycast import _caller, backends
from polycast.scaler.clipping import check_clipping, clip_coef, clip_in_place
from polycast.scaler.record import StepRecord
from polycast.scaler.step import ALREADY_UNSCALED, SteppingScaler, has_lone_shards, read, unwrapped
from polycast.syncfree.batches import call

Optimizer = torch.optim.Optimizer
T = TypeVar("T")

# A scale of 0 makes gradients of 0, and NaN of those. The reciprocal of this one is finite.
_SMALLEST = torch.finfo(torch.float32).tiny
_STATE = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")
_MANY = 20  # skipped steps in a row, to be told of


class GradScaler(SteppingScaler):
    """A ``torch.amp.GradScaler`` for every device, without host reads.

    With an optimizer whose step takes ``found_inf``, such as those of :mod:`polycast.syncfree`, nothing is read back:
    one pass over the gradients finds what is not finite, and the step unscales, clips and skips by itself.

    Each ``update`` sets the scale. Where a gradient that was looked at since the last one held an infinity or a NaN,
    the scale is multiplied by ``backoff_factor``, not below ``min_scale``. Otherwise the iteration was a good one, and
    after ``growth_interval`` good ones in a row the scale is multiplied by ``growth_factor``, not above ``max_scale``
    nor to infinity. Either change starts the count of good ones anew. The looks are ``step``, ``unscale_`` and
    ``clip_grad_norm``, so a batch that is dropped after one of the latter two counts, and ends with ``update`` too.

    bfloat16 has float32's range: its gradients need no scaling. ``GradScaler(init_scale=1.0, min_scale=1.0,
    max_scale=1.0)`` leaves them as they are and is a guard: it skips the steps whose gradients are not finite.
    ``enabled=False`` takes every step.

    Args:
        device: A device type, "cpu", "cuda", "xla", ..., or a ``torch.device``; None takes that of the first outputs
            that are scaled. As in torch, "cuda" where torch finds neither CUDA nor torch_xla disables the scaler, with
            a warning.
        init_scale: The first scale.
        growth_factor: What the scale is multiplied by after ``growth_interval`` steps without an infinity or a NaN.
        backoff_factor: What it is multiplied by after a step with one.
        growth_interval: See ``growth_factor``.
        enabled: False gives a scaler that does nothing: ``scale`` returns its argument, ``step`` steps.
        min_scale: The scale never backs off below it, nor below the smallest normal number of float32.
        max_scale: The scale never grows above it.
        report_skips: Read back once in each step whether it is skipped, and then do not call ``optimizer.step``, for
            trainers that watch whether it is called.
        process_group: The ranks that parameters are sharded over which are no DTensors, as FSDP1's are
            (``torch.distributed.group.WORLD``): what one of them finds, all know, by a reduction for each look.
            DTensors need none. Or the ranks of a pipeline's stages, each of which otherwise skips alone, as in torch.

    Raises:
        ValueError: The bounds do not enclose ``init_scale``, or there is no such device.
        TypeError: ``enabled`` or ``report_skips`` is a text, or ``growth_interval`` is no whole number.
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
        process_group: Any = None,
    ) -> None:
        for name, value in (("enabled", enabled), ("report_skips", report_skips)):
            if isinstance(value, str):  # "False" would be true
                raise TypeError(f"{name} is {value!r}; it takes True or False")
        _check_interval(growth_interval)
        low = max(min_scale, _SMALLEST)
        if not low <= init_scale <= max_scale:
            raise ValueError(
                f"init_scale is {init_scale}, outside of min_scale={low} and max_scale={max_scale}; "
                "choose bounds that enclose it"
            )
        kind = "" if device is None else backends.known_type(device)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            super().__init__(kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        for warning in caught:  # that there is no such device, told to the caller
            warnings.warn(warning.message, warning.category, stacklevel=2)
        self._bounds = (low, max_scale)
        self._report_skips, self._process_group = report_skips, process_group
        self._told: set[str] = set()
        self._records = _no_records()

    def scale(self, outputs: T) -> T:
        """Multiply outputs, a tensor or nested lists of them, by the scale, as ``torch.amp.GradScaler.scale`` does."""
        self._has_scaled = True
        scaled: T = super().scale(outputs)  # type: ignore[call-overload]
        return scaled

    def unscale(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return tensors divided by the scale, such as what ``torch.autograd.grad`` gave for scaled outputs.

        The gradients of an optimizer are divided in place by ``unscale_``.

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
        if isinstance(tensors, Tensor):
            raise TypeError("unscale was given one tensor, and takes a sequence of them; pass [tensor]")
        for index, tensor in enumerate(tensors):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"tensors[{index}] is {tensor!r}, and no tensor; leave out what has no gradient")
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
            state = self._iteration(optimizer, "unscale_").state
            if state["stage"] is OptState.UNSCALED:
                raise RuntimeError(ALREADY_UNSCALED)
            self._refuse_another_batch(state)
            super().unscale_(optimizer)
            state["looked_in"] = self._batch

    @_disable_dynamo
    def clip_grad_norm(self, optimizer: Optimizer, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Have the next step of an optimizer clip the norm of its gradients, all together.

        With a sync-free optimizer no gradient changes here, hence no underscore: one pass computes the norm and looks
        for infinities and NaNs, and the step multiplies, as ``step`` says. It goes before or after ``unscale_``. The
        gradients of any other optimizer are unscaled, if they were not, and clipped here, in place; a disabled scaler
        clips those of every optimizer in place.

        Of several calls each clips what the ones before leave.

        Args:
            optimizer: What will be stepped.
            max_norm: The largest norm that the unscaled gradients may have.
            norm_type: 1, 2, another positive number, or infinity.

        Returns:
            The norm of the unscaled gradients before this clipping, one element on the device of the scale. Nothing is
            read back. It is not finite where a gradient is not.

        Raises:
            TypeError: What is given is no optimizer.
            ValueError: ``norm_type`` or ``max_norm`` is no positive number.
            RuntimeError: The optimizer was stepped since the last ``update``, or its gradients were unscaled or clipped
                in an earlier batch, that is before a loss was last scaled: a batch that is dropped after that ends with
                ``update``, too. Or parameters are sharded and no DTensors: which gradients each rank holds whole is not
                known here.

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
        _, scale, state = self._iteration(optimizer, "clip_grad_norm")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("clip_grad_norm() is being called after step().")
        self._refuse_another_batch(state)
        is_scaled = state["stage"] is OptState.READY
        if not record.is_sync_free:
            if is_scaled:
                self.unscale_(optimizer)
            return clip_in_place(optimizer, max_norm, norm_type)
        norm, found_infs = record.measure(optimizer, norm_type, scale.device)
        if is_scaled:
            norm = norm / scale
            if "clip_coef" not in state:
                state["found_inf_per_device"], state["looked_in"] = found_infs, self._batch
        earlier = state.get("clip_coef")
        norm = norm if earlier is None else norm * earlier
        coef = clip_coef(norm, max_norm)
        state["clip_coef"] = coef if earlier is None else coef * earlier
        return norm

    @_disable_dynamo
    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Step an optimizer, unless its gradients hold an infinity or a NaN.

        A sync-free optimizer skips by itself. One of torch's fused optimizers is told to. For any other it is read back
        once whether to step. A disabled scaler steps.

        A sync-free optimizer divides and clips the gradients in registers, and ``.grad`` stays scaled. Where somebody
        can see gradients within the step, they are unscaled and clipped in place before it, as in torch: where the
        optimizer, or all optimizers, have step hooks (other than polycast's own and the profiler's), and where
        ``optimizer.step`` is not the one of :mod:`polycast.syncfree`: a subclass's, a wrapper's, or one that was put in
        its place. A schedule of ``torch.optim.lr_scheduler`` wraps the step and changes nothing of this.

        Args:
            optimizer: Any.
            args, kwargs: For ``optimizer.step``. As in torch, a closure is taken by position only. It sees unscaled
                gradients, is not called where the step is skipped, and costs one read of whether it is.

        Raises:
            TypeError: What is given is no optimizer.
            RuntimeError: As in torch: the optimizer was stepped since the last ``update``, or a closure is given by its
                name. Or FSDP1 shards its parameters, and the scaler has no ``process_group``.
            ValueError: As in torch: a gradient that is to be unscaled in place is of float16.
            AssertionError: As in torch: nothing was scaled, or no gradient was found on any rank.
        """
        if not self._enabled:
            if hasattr(optimizer, "param_groups"):  # torch's steps whatever has a step
                self._record(optimizer).steps += 1
            return super().step(optimizer, *args, **kwargs)
        record, scale, _ = iteration = self._iteration(optimizer, "step")
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if not record.is_sync_free and backends.reads_stall(scale.device.type):
            self._tell(
                f"each step of {type(optimizer).__name__} waits until the device has told whether to skip it; "
                "an optimizer of polycast.syncfree does not"
            )
        found_inf, result = self._look(optimizer, iteration, *args[:1]), None
        if self._report_skips and read(found_inf):
            pass
        elif record.is_sync_free:
            result = self._maybe_opt_step(optimizer, iteration.state, *args, **kwargs)
        else:
            result = super().step(optimizer, *args, **kwargs)
        iteration.state["stage"] = OptState.STEPPED
        record.count(found_inf)
        return result

    @_disable_dynamo
    def step_together(self, *optimizers: Optimizer) -> None:
        """Step several optimizers, or none of them if a gradient of any holds an infinity or a NaN.

        Nothing is read back if all of them are sync-free, or fused ones of torch's. It counts as the step of each. If
        one is sharded, what any rank of its mesh finds in any of them counts on all, for ``update`` too. If they are
        not all sharded over the same meshes, that takes one more sum for each mesh.

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
            iterations = [self._iteration(optimizer, "step") for optimizer in optimizers]
            for optimizer, iteration in zip(optimizers, iterations, strict=True):
                self._look(optimizer, iteration)
            found_inf = self._known_to_all(iteration.state for iteration in iterations)
            ranks = tuple(dict.fromkeys(each for iteration in iterations for each in iteration.record.ranks))
            for record, scale, state in iterations if found_inf is not None else ():  # for the steps to find
                state["found_inf_per_device"], record.ranks = {scale.device: found_inf}, ranks
        for optimizer in optimizers:
            self.step(optimizer)

    @_disable_dynamo
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale for the next iteration, by the rule that :class:`GradScaler` has, or to a new one.

        It ends a batch that is dropped after a look at its gradients, too: what was found counts. If only some of the
        optimizers are sharded, or over other meshes, what any rank found in any of them counts on all ranks; so these
        must use the same optimizers. That takes one more sum for each mesh.

        Raises:
            AssertionError: As in torch: nothing was scaled, or no gradient was looked at.

        Source: ``torch.amp.GradScaler.update``; here within ``min_scale`` and ``max_scale``.
        """
        if not self._enabled or new_scale is not None:
            super().update(new_scale)
            self._keep_bounds()
            return
        scale, growth_tracker = self._check_scale_growth_tracker("update")
        found_inf = self._known_to_all(self._per_optimizer_states.values())
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
        """Return which parameters had gradients that were not finite when they were last looked at.

        Names are those that the optimizer was given, else "param_groups[0]['params'][3]". What was found is kept until
        the gradients are looked at again, and read back only here. Of parameters that are DTensors it is what any rank
        of their mesh found; of others, what this one did. A disabled scaler looks at no gradient but here, at those
        that are there now.
        """
        record = self._record(optimizer)
        if not self._enabled:
            record.look(optimizer)
        return record.non_finite(optimizer)

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good iterations in a row the scale grows.

        Raises:
            TypeError: It is no whole number.
        """
        _check_interval(new_interval)
        super().set_growth_interval(new_interval)

    def get_scale(self) -> float:
        """Return the scale, or 1.0 if the scaler is disabled; reads from the device.

        Where the scale has fallen below 1, or as far as it may, and 20 or more steps of an optimizer were skipped in a
        row, as far as such reads can tell, it warns of that, once. No step reads, so it is told here, and where
        ``state_dict`` is called.
        """
        scale = super().get_scale()
        if scale < 1 or scale <= self._bounds[0]:
            for optimizer, record in self._records.items():
                if record.row(self._device_of_scale()) >= _MANY:
                    self._tell(
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
        if self._enabled and state_dict and not state_dict.keys() >= set(_STATE):
            raise ValueError(
                f"a state with {sorted(map(str, state_dict))} is not one of a gradient scaler; load what "
                "GradScaler.state_dict() returned"
            )
        if self._enabled and state_dict:
            _check_interval(state_dict["growth_interval"])
        super().load_state_dict(state_dict)
        if self._enabled:
            self._init_scale = min(max(self._init_scale, self._bounds[0]), self._bounds[1])
            self._keep_bounds()

    def __repr__(self) -> str:
        """Return the settings; the scale itself would have to be read."""
        if not self._enabled:
            return f"{type(self).__name__}(enabled=False)"
        low, high = self._bounds
        return (
            f"{type(self).__name__}(device={self._device!r}, init_scale={self._init_scale:g}, "
            f"growth_factor={self._growth_factor:g}, backoff_factor={self._backoff_factor:g}, "
            f"growth_interval={self._growth_interval}, min_scale={low:g}, max_scale={high:g}, "
            f"report_skips={self._report_skips})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_records": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_records": _no_records()})

    def _lazy_init_scale_growth_tracker(self, dev: torch.device) -> None:
        # Checkpoints are loaded into the _device of a scaler that has not scaled yet, a text that may be empty.
        super()._lazy_init_scale_growth_tracker(dev or torch.device(backends.current()))
        self._device = self._device or self._device_of_scale().type

    def _device_of_scale(self) -> torch.device:
        return torch.device("cpu") if self._scale is None else self._scale.device

    def _keep_bounds(self) -> None:
        if self._scale is not None:
            self._scale.clamp_(*self._bounds)

    def _tell(self, message: str) -> None:
        """Warn once."""
        if message in self._told:
            return
        self._told.add(message)
        _caller.warn(message)


def _no_records() -> MutableMapping[Optimizer, StepRecord]:
    """Return a dictionary that keeps no optimizer alive."""
    records: MutableMapping[Optimizer, StepRecord] = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]
    return records


def _check_interval(interval: Any) -> None:
    """Raise where torch would in the first update, in terms of its operator."""
    if not hasattr(interval, "__index__"):
        raise TypeError(f"growth_interval is {interval!r}; it takes a whole number of steps")
