"""What a gradient scaler knows of one optimizer: findings and skipped steps, tensors on their devices."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.amp.grad_scaler import OptState

from polycast.scaler.clipping import multiply
from polycast.scaler.findings import Agreed, Finding, FoundInf, Ranks, measured, total_norm
from polycast.scaler.sharding import shards_of
from polycast.syncfree.batches import Gradients, Group, name_of, on_gradients
from polycast.syncfree.gather import Collected, collect, gather_gradients

Optimizer = torch.optim.Optimizer


class Skips(NamedTuple):
    """The skipped steps of an optimizer: float32 tensors of one element, on the device of the scale."""

    last: Tensor  # whether the last step was one, as 0 or 1
    total: Tensor


class Record:
    """What a scaler knows of one optimizer, and of its wrappers."""

    def __init__(self, optimizer: Optimizer) -> None:
        # Whether its step takes found_inf, grad_scale and clip_coef, and skips by itself.
        self.is_sync_free = bool(getattr(optimizer, "takes_found_inf", False))
        self.ranks: tuple[Ranks, ...] = ()  # that agreed on the last findings
        self._findings: list[Finding] = []
        self._skips: Skips | None = None
        # The gradients of the last check, for the step of a sync-free optimizer: see Note [Parameters gathered once].
        self.collected: list[Collected] | None = None
        # Since the last update. Torch's state has the stage of the step, and found_inf of each device.
        self.state: dict[str, Any] = {}
        self.batch: int | None = None  # whose gradients unscale_ or clip_grad_norm checked
        self.clip_coef: Tensor | None = None  # what the step multiplies gradients by
        self.found_inf: Tensor | None = None  # if set, the step is skipped: one element on the device of the scale

    def look(self, optimizer: Optimizer) -> FoundInf:
        """Check the gradients, in one pass that writes nothing."""
        findings, groups = [], optimizer.param_groups
        for gradients in self._gather(groups):
            found = on_gradients(torch.ops.polycast.find_non_finite.default, gradients, groups)
            findings.append(Finding.of(gradients, *found))
        return self._agree(optimizer, findings).found_infs

    def unscale(self, optimizer: Optimizer, inv_scale: Tensor, allow_float16: bool) -> FoundInf:
        """Multiply the gradients in place and check them, in one pass.

        Raises:
            ValueError: As in torch: a gradient is of float16, whose range the unscaled gradients might not fit.
        """
        findings = []
        for gradients in self._to_write(optimizer, allow_float16):
            found_inf, non_finite = multiply(gradients, inv_scale, optimizer.param_groups)
            findings.append(Finding.of(gradients, found_inf, non_finite))
        return self._agree(optimizer, findings).found_infs

    def measure(self, optimizer: Optimizer, norm_type: float, device: torch.device) -> tuple[Tensor, FoundInf]:
        """Return the norm of all gradients, and what `look` returns, from one pass."""
        groups = optimizer.param_groups
        findings = measured(groups, self._gather(groups), norm_type)
        agreed = self._agree(optimizer, findings, with_norms=True)
        return total_norm(agreed.norms, norm_type, device), agreed.found_infs

    def multiply(self, optimizer: Optimizer, factor: Tensor) -> None:
        """Multiply gradients in place that were checked before.

        Raises:
            ValueError: As `unscale`.
        """
        for gradients in self._to_write(optimizer, allow_float16=False):
            multiply(gradients, factor, optimizer.param_groups)

    def count(self, found_inf: Tensor) -> None:
        """Record a step, which was skipped if the element is 1 instead of 0."""
        before = self._skips or self.skips(found_inf.device)
        self.state["stage"] = OptState.STEPPED
        self._skips = Skips(found_inf, before.total + found_inf)

    def skips(self, device: torch.device) -> Skips:
        """Return the skipped steps; before the first step, zeros on the device."""
        if self._skips is None:
            zero = torch.zeros((), device=device)
            return Skips(zero, zero)
        return self._skips

    def non_finite(self, optimizer: Optimizer) -> list[str]:
        """Return the names of the parameters whose gradients were not finite on this rank. It syncs."""
        found = {
            id(param)
            for each in self._findings
            for param, flag in zip(each.params, each.non_finite.tolist(), strict=True)
            if flag
        }
        groups = optimizer.param_groups
        return [name_of(groups, param) for group in groups for param in group["params"] if id(param) in found]

    def _agree(self, optimizer: Optimizer, findings: list[Finding], with_norms: bool = False) -> Agreed:
        """Keep the findings of this rank, and return what all ranks found."""
        distributed: Any = torch.distributed
        is_alone = not (distributed.is_available() and distributed.is_initialized())
        shards = None if is_alone else shards_of(optimizer.param_groups)
        self._findings = findings
        self.ranks = shards.ranks if shards else ()
        return shards.agreed(findings, with_norms) if shards else Agreed.alone(findings)

    def _gather(self, groups: list[Group], coalesce_in_place: bool = False) -> list[Gradients]:
        collected = collect(groups, self.collected)
        self.collected = collected if self.is_sync_free else None
        return gather_gradients(groups, collected, coalesce_in_place)

    def _to_write(self, optimizer: Optimizer, allow_float16: bool) -> list[Gradients]:
        gathered = self._gather(optimizer.param_groups, coalesce_in_place=True)
        for gradients in () if allow_float16 else gathered:
            for param, grad in zip(gradients.params, gradients.grads, strict=True):
                if grad.dtype is torch.float16:
                    raise ValueError(_float16_text(name_of(optimizer.param_groups, param)))
        return gathered


def _float16_text(name: str) -> str:
    return (
        f"Attempting to unscale FP16 gradients. That of {name} is float16: keep the parameters in float32 and let "
        "autocast choose, or take an optimizer of polycast.syncfree whose step unscales in registers, without "
        "unscale_, step hooks, a closure or a step that is not its own"
    )
