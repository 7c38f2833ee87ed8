"""One step of one optimizer within torch's scaler: looking at the gradients, then taking the step or skipping it."""

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as TorchGradScaler
from torch.amp.grad_scaler import OptState

from polycast.scaler.record import FoundInf, StepRecord
from polycast.scaler.sharding import sum_over
from polycast.scaler.visibility import can_be_seen

Optimizer = torch.optim.Optimizer

ALREADY_UNSCALED = (
    "unscale_() has already been called on this optimizer since the last update(). Call update() before the next "
    "batch, also after one that is dropped; clip_grad_norm() counts as a call of unscale_(), and goes before the next "
    "loss is scaled."
)


class Iteration(NamedTuple):
    """An optimizer since the last update.

    The state is torch's: "stage", and "found_inf_per_device". Here is added "record"; by unscale_ and clip_grad_norm
    "looked_in", the batch whose gradients they were the first to look at; where the step clips "clip_coef", the factor;
    and by a step "found_inf", one element on the device of the scale.
    """

    record: StepRecord
    scale: Tensor
    state: dict[str, Any]


class SteppingScaler(TorchGradScaler):
    """What torch's scaler calls within itself, and a subclass may override; not a complete scaler."""

    _scale: Tensor | None = None
    _process_group: Any = None
    _per_optimizer_states: dict[int, dict[str, Any]]
    _records: MutableMapping[Optimizer, StepRecord]  # by identity: their own equality and hash do not matter
    # What a look at gradients belongs to: a number that is another one after the next call of scale().
    _batch = 0
    _has_scaled = False

    def _unscale_grads_(
        self,
        optimizer: Optimizer,
        inv_scale: Tensor,
        found_inf: Tensor,  # noqa: ARG002
        allow_fp16: bool,
    ) -> dict[torch.device, Tensor]:
        found = self._record(optimizer).unscale(optimizer, inv_scale, allow_fp16)
        return found if self._process_group is None else self._agreed(found)

    def _check_inf_per_device(self, optimizer: Optimizer) -> dict[Any, Any]:
        """Look for infinities and NaNs, unless steps that are taken together have: torch's step asks again."""
        state = self._per_optimizer_states[id(optimizer)]
        if not state["found_inf_per_device"]:
            record = state["record"] if "record" in state else self._record(optimizer)
            found = record.look(optimizer)
            state["found_inf_per_device"] = found if self._process_group is None else self._agreed(found)
        found_inf: dict[Any, Any] = state["found_inf_per_device"]
        return found_inf

    def _maybe_opt_step(
        self, optimizer: Optimizer, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> float | None:
        """Step a sync-free optimizer, which skips by itself, or any other unless it is to be skipped."""
        step: Callable[..., float | None] = optimizer.step
        found_inf = optimizer_state["found_inf"]
        # The step of what wraps a sync-free optimizer does not skip by itself, and a closure would be called.
        has_closure = bool(args) and args[0] is not None
        if (has_closure or not getattr(optimizer, "takes_found_inf", False)) and read(found_inf):
            return None
        # Once gradients were unscaled in place there is nothing to divide by.
        ready = optimizer_state["stage"] is OptState.READY
        if hasattr(optimizer, "optimizer"):  # what wraps one may come here again, as a scaler's user itself
            optimizer, optimizer_state["stage"] = unwrapped(optimizer), OptState.STEPPED
        if not getattr(optimizer, "takes_found_inf", False):
            return step(*args, **kwargs)
        grad_scale = self._scale if ready else None
        if grad_scale is not None and getattr(optimizer, "grad_scale", None) is not None:
            grad_scale = grad_scale * optimizer.grad_scale  # type: ignore[attr-defined]
        # As attributes, torch's protocol for fused steps: a subclass's step may have a signature of its own.
        told = {"found_inf": found_inf, "grad_scale": grad_scale, "clip_coef": optimizer_state.get("clip_coef")}
        vars(optimizer).update(told)
        try:
            return step(*args, **kwargs)
        finally:
            for name in told:
                delattr(optimizer, name)

    def _look(self, optimizer: Optimizer, iteration: Iteration, closure: Any = None) -> Tensor:
        """Look at the gradients if nobody has, raise what torch raises before a step, and return found_inf.

        Gradients that can be seen within the step are unscaled and clipped here: see Note [Gradients within a step].
        """
        record, scale, state = iteration
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        is_fused = getattr(optimizer, "_step_supports_amp_scaling", False)
        is_seen = record.is_sync_free and can_be_seen(optimizer, closure)
        if state["stage"] is OptState.READY and "clip_coef" not in state:
            if is_fused or (record.is_sync_free and not is_seen):
                self._check_inf_per_device(optimizer)
            else:
                self.unscale_(optimizer)
        if is_seen and "clip_coef" in state:
            coef = state["clip_coef"]
            record.multiply(optimizer, coef / scale if state["stage"] is OptState.READY else coef)
            state["stage"] = OptState.UNSCALED
            del state["clip_coef"]
        found_infs = state["found_inf_per_device"]
        if not found_infs and not is_fused:
            raise AssertionError(
                "No inf checks were recorded for this optimizer. No parameter of it had a gradient; call backward on "
                "what scale() returned before"
            )
        found_inf: Tensor = any_of(list(found_infs.values()), scale.device)
        state["found_inf"] = found_inf
        return found_inf

    def _iteration(self, optimizer: Optimizer, asked: str) -> Iteration:
        """Return what is known of an optimizer since the last update, or raise that nothing was scaled."""
        record = self._record(optimizer)
        scale, _ = self._check_scale_growth_tracker(asked)
        states = self._per_optimizer_states
        if hasattr(optimizer, "optimizer"):  # torch looks for the state of what it is given
            states[id(optimizer)] = states[id(unwrapped(optimizer))]
        state = states[id(optimizer)]
        state["record"] = record
        return Iteration(record, scale, state)

    def _refuse_another_batch(self, state: dict[str, Any]) -> None:
        """Raise if gradients were looked at before a loss was last scaled: what unscale_ would raise by itself."""
        self._batch += self._has_scaled
        self._has_scaled = False
        if state["stage"] is not OptState.STEPPED and state.get("looked_in", self._batch) != self._batch:
            raise RuntimeError(ALREADY_UNSCALED)

    def _agreed(self, found_infs: FoundInf) -> FoundInf:
        """Return what any rank of the process group has found, also to one that has no gradients."""
        assert self._scale is not None
        found_inf = any_of(list(found_infs.values()), self._scale.device)
        distributed: Any = torch.distributed
        distributed.all_reduce(found_inf, distributed.ReduceOp.MAX, group=self._process_group)
        return {found_inf.device: found_inf}

    def _known_to_all(self, states: Iterable[dict[str, Any]]) -> Tensor | None:
        """Return whether any of several looks found anything, known to every rank; None where no gradient was there.

        Looks at shards of the same meshes are known there already. Where only some of the optimizers are sharded, or
        on other meshes, it is one more sum for each mesh and dimension of it. All ranks step the same optimizers.
        """
        assert self._scale is not None
        found_infs, known = [], []
        for state in states:
            found_infs += state["found_inf_per_device"].values()
            known.append(state["record"].ranks if "record" in state else ())
        found_inf = any_of(found_infs, self._scale.device)
        meshes = {ranks: None for each in known for ranks in each}
        # A rank whose plain optimizers have no gradients takes part, too.
        if self._process_group is None and any(len(each) < len(meshes) for each in known):
            found_inf = found_inf.clone()  # which may be that of a record
            for ranks in meshes:
                found_inf = found_inf.to(ranks.device, non_blocking=True)
                sum_over(found_inf, ranks)
            found_inf = found_inf.clamp(max=1).to(self._scale.device, non_blocking=True)
        return found_inf if found_infs else None

    def _record(self, optimizer: Optimizer) -> StepRecord:
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(
                f"a {type(optimizer).__name__} was given for an optimizer and has no param_groups; pass the optimizer "
                "itself, not its parameters, and each one by itself"
            )
        if hasattr(optimizer, "optimizer"):
            optimizer = unwrapped(optimizer)
        record: StepRecord | None = self._records.get(optimizer)
        if record is None:
            if self._enabled and self._process_group is None and has_lone_shards(optimizer):
                raise RuntimeError(
                    "FSDP1's parameters tell of no mesh, so each rank would scale and skip by itself; make the scaler "
                    "by GradScaler(process_group=torch.distributed.group.WORLD), or shard by fully_shard"
                )
            record = self._records[optimizer] = StepRecord(optimizer)
        return record


def unwrapped(optimizer: Any) -> Any:
    """Return the optimizer that another object wraps: its attribute ``optimizer``, with the very same parameter groups.

    Trainers wrap optimizers and step one of the two; what a scaler knows is known of both.
    """
    inner = getattr(optimizer, "optimizer", None)
    while isinstance(inner, Optimizer) and inner.param_groups is getattr(optimizer, "param_groups", None):
        optimizer, inner = inner, getattr(inner, "optimizer", None)
    return optimizer


def has_lone_shards(optimizer: Optimizer) -> bool:
    """Return whether parameters are sharded over several ranks, and are no DTensors: FSDP1's."""
    params = (param for group in optimizer.param_groups for param in group["params"])
    distributed: Any = torch.distributed
    return any(getattr(param, "_fsdp_flattened", False) for param in params) and distributed.get_world_size() > 1


def any_of(found_infs: list[Tensor], device: torch.device) -> Tensor:
    """Return one element on the device that is 1 where any is, else 0.

    Torch's fused optimizers skip where it is 1, and for no other value.
    """
    if len(found_infs) == 1:
        return found_infs[0].to(device, non_blocking=True)
    moved = [found_inf.to(device, non_blocking=True) for found_inf in found_infs]
    return torch.stack(moved).max() if moved else torch.zeros((), device=device)


def read(found_inf: Tensor) -> bool:
    """Wait for the device, and return whether the element is set."""
    return bool(found_inf.item())
