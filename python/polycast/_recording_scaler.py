"""Torch's gradient scaler with passes over the gradients that are our own, and a record of what they found."""

from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as TorchGradScaler

from polycast._compiled import gather_gradients
from polycast._scaled_step import any_of, read
from polycast._step_record import StepRecord

Optimizer = torch.optim.Optimizer


class RecordingGradScaler(TorchGradScaler):
    """What torch's scaler calls within itself, and what can be asked of the steps; not a complete scaler."""

    _device: str
    _per_optimizer_states: dict[int, dict[str, Any]]
    _records: WeakKeyDictionary[Optimizer, StepRecord]

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
        the gradients are looked at again, and read back only here. Of parameters that are DTensors it is what any rank
        of their mesh found; of others, what this one did.
        """
        return self._record(optimizer).non_finite(optimizer)

    def _record(self, optimizer: Optimizer) -> StepRecord:
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(f"the optimizer is a {type(optimizer).__name__}; pass each optimizer by itself")
        record = self._records.get(optimizer)
        if record is None:
            record = self._records[optimizer] = StepRecord()
        return record

    def _device_of_scale(self) -> torch.device:
        return torch.device("cpu") if self._scale is None else self._scale.device

    def _unscale_grads_(
        self,
        optimizer: Optimizer,
        inv_scale: Tensor,
        found_inf: Tensor,  # noqa: ARG002
        allow_fp16: bool,
    ) -> dict[torch.device, Tensor]:
        record = self._record(optimizer)
        gathered = gather_gradients(optimizer.param_groups, coalesce_in_place=True)
        if not allow_fp16 and any(gradients.has_float16() for gradients in gathered):
            raise ValueError("Attempting to unscale FP16 gradients.")
        record.unscale(gathered, inv_scale)
        return record.found_inf

    def _check_inf_per_device(self, optimizer: Optimizer) -> dict[Any, Any]:
        record = self._record(optimizer)
        record.check(optimizer)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = record.found_inf
        return record.found_inf

    def _maybe_opt_step(
        self, optimizer: Optimizer, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> float | None:
        found_inf = any_of(optimizer_state["found_inf_per_device"].values(), self._device_of_scale())
        return None if read(found_inf) else cast("float | None", optimizer.step(*args, **kwargs))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_records": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_records": WeakKeyDictionary()})
