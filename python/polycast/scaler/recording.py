"""A torch.amp.GradScaler that keeps a record of each optimizer, and answers questions about them."""

from collections.abc import MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as TorchGradScaler
from torch.utils.weak import WeakIdKeyDictionary

from polycast import backends
from polycast.scaler.arguments import not_an_optimizer
from polycast.scaler.findings import FoundInf
from polycast.scaler.record import Record
from polycast.scaler.sharding import any_in_group, any_of_looks
from polycast.scaler.wrapping import has_lone_shards, unwrapped

Optimizer = torch.optim.Optimizer


class RecordingScaler(TorchGradScaler):
    """A base class of GradScaler: its records, and what torch's scaler calls within itself to check gradients."""

    _device: str
    _scale: Tensor | None = None
    _per_optimizer_states: dict[int, dict[str, Any]]
    _process_group: Any
    _records: MutableMapping[Optimizer, Record]  # by identity: optimizers may define equality and hash

    def skipped(self, optimizer: Optimizer | None = None) -> Tensor:
        """Return whether the last step of an optimizer was skipped, without a sync.

        Args:
            optimizer: May be left out where the scaler has stepped or checked one optimizer only.

        Returns:
            One bool, on the device of the scale; False before the first step.

        Raises:
            TypeError: The argument is no optimizer.
            RuntimeError: It is left out, and the scaler knows several optimizers, or none.
        """
        _, record = self._asked("skipped", optimizer)
        return record.skips(self._device_of_scale()).last != 0

    def skip_count(self, optimizer: Optimizer | None = None) -> Tensor:
        """Return how many steps of an optimizer were skipped: one int64, on the device of the scale.

        The argument and the errors are those of :meth:`skipped`.
        """
        _, record = self._asked("skip_count", optimizer)
        return record.skips(self._device_of_scale()).total.to(torch.int64)

    def non_finite(self, optimizer: Optimizer | None = None) -> list[str]:
        """Return the names of the parameters whose gradients were not finite in the last check. It syncs.

        Names are those that the optimizer was given, else "param_groups[0]['params'][3]". They are those of this rank:
        of sharded parameters, what another rank found in its shards is named there only. A disabled scaler checks the
        gradients that are there now. The argument and the errors are those of :meth:`skipped`.
        """
        optimizer, record = self._asked("non_finite", optimizer)
        if not self._enabled:
            record.look(optimizer)
            record.collected = None
        return record.non_finite(optimizer)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_records": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_records": no_records()})

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
    ) -> FoundInf:
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

    # The records.

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

    def _asked(self, method: str, optimizer: Optimizer | None) -> tuple[Optimizer, Record]:
        """Return the optimizer that a question is about, the only one if it names none, and its record."""
        if optimizer is not None:
            return optimizer, self._record(optimizer)
        known = list(self._records.items())
        if len(known) == 1:
            return known[0]
        names = " and ".join(type(each).__name__ for each, _ in known)
        raise RuntimeError(
            f"{method}() without an optimizer needs a scaler that has stepped one, and this one has stepped "
            f"{names or 'none'}; " + (f"pass one of the {len(known)}" if known else "step first, or pass the optimizer")
        )

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

    def _reduced(self, found_infs: FoundInf) -> FoundInf:
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


def no_records() -> MutableMapping[Optimizer, Record]:
    """Return a dictionary that keeps no optimizer alive."""
    records: MutableMapping[Optimizer, Record] = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]
    return records
