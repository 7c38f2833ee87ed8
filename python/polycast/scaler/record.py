"""The findings in the gradients of one optimizer, and its skipped steps: tensors on their devices, read when asked."""

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from polycast._compiled import gather_gradients
from polycast.scaler.sharding import Finding, agreed, measured, total_norm

Optimizer = torch.optim.Optimizer


#: On each device whether a gradient there is not finite, as 0 or 1.
FoundInf: TypeAlias = dict[torch.device, Tensor]


class Skips(NamedTuple):
    """The skipped steps of an optimizer: float32 tensors of one element, on the device of the scale."""

    last: Tensor  # whether the last step was one, as 0 or 1
    total: Tensor


class StepRecord:
    """What the last pass over the gradients of an optimizer found, and how many of its steps were skipped."""

    def __init__(self, optimizer: Optimizer) -> None:
        # Whether its step takes found_inf, grad_scale and clip_coef, and skips by itself.
        self.is_sync_free = bool(getattr(optimizer, "takes_found_inf", False))
        self.steps = 0  # taken or skipped
        self._findings: list[Finding] = []
        self._skips: Skips | None = None
        self._taken = (0, 0)  # steps, and skipped ones, when it was last read that one was taken

    def look(self, optimizer: Optimizer) -> FoundInf:
        """Look for infinities and NaNs, in one pass that writes nothing."""
        findings = []
        for gradients in gather_gradients(optimizer.param_groups):
            findings.append(Finding(gradients, *gradients.find_non_finite()))
        return self._remember(findings)

    def unscale(self, optimizer: Optimizer, inv_scale: Tensor, allow_float16: bool) -> FoundInf:
        """Multiply gradients in place, and look for infinities and NaNs, in the same pass.

        Raises:
            ValueError: As in torch: a gradient is of float16, whose range the unscaled gradients might not fit.
        """
        gathered = gather_gradients(optimizer.param_groups, coalesce_in_place=True)
        if not allow_float16 and any(gradients.has_float16() for gradients in gathered):
            raise ValueError(_float16_text(optimizer))
        findings = []
        for gradients in gathered:
            found_inf = torch.zeros((), dtype=torch.float32, device=gradients.device)
            non_finite = gradients.unscale_(found_inf, inv_scale.to(gradients.device, non_blocking=True))
            findings.append(Finding(gradients, found_inf, non_finite))
        return self._remember(findings)

    def measure(self, optimizer: Optimizer, norm_type: float, device: torch.device) -> tuple[Tensor, FoundInf]:
        """Return the norm of all gradients, and what `look` does, in the same pass."""
        found_infs = self._remember(measured(gather_gradients(optimizer.param_groups), norm_type))
        return total_norm(self._findings, norm_type, device), found_infs

    def count(self, found_inf: Tensor) -> None:
        """Record a step, skipped where the element is 1 instead of 0."""
        before = self._skips or self.skips(found_inf.device)
        self.steps += 1
        self._skips = Skips(found_inf, before.total + found_inf)

    def skips(self, device: torch.device) -> Skips:
        """Return what is known of the skipped steps; on the device, if there was no step yet."""
        if self._skips is None:
            zero = torch.zeros((), device=device)
            return Skips(zero, zero)
        return self._skips

    def row(self, device: torch.device) -> int:
        """Return how many of the last steps are known to be skipped, one after the other; reads from the device.

        A step that was taken is known to lie somewhere between two reads, and the row then begins at the second.
        """
        steps, total = self._taken
        now = int(self.skips(device).total.item())
        if now - total != self.steps - steps:
            self._taken = (self.steps, now)
        return self.steps - self._taken[0]

    def non_finite(self, optimizer: Optimizer) -> list[str]:
        """Return the names of the parameters whose gradients were not finite; reads from the devices."""
        found = [
            position
            for finding in self._findings
            for position, flag in zip(finding.gradients.positions, finding.non_finite.tolist(), strict=True)
            if flag
        ]
        return [_name(optimizer, group, index) for group, index in sorted(found)]

    def _remember(self, findings: list[Finding]) -> FoundInf:
        """Keep what the ranks agree on, and return on each device whether any gradient was not finite."""
        is_sharded = False
        for finding in findings:
            finding.gradients.release()
            is_sharded = is_sharded or finding.gradients.mesh is not None
        self._findings = agreed(findings) if is_sharded else findings
        found_infs: FoundInf = {}
        for finding in self._findings:
            found_infs[finding.gradients.device] = finding.found_inf
        return found_infs


def _name(optimizer: Optimizer, group: int, index: int) -> str:
    names = optimizer.param_groups[group].get("param_names")
    return str(names[index]) if names else f"param_groups[{group}]['params'][{index}]"


def _float16_text(optimizer: Optimizer) -> str:
    places: list[tuple[int, int, Any]] = [
        (number, index, param)
        for number, group in enumerate(optimizer.param_groups)
        for index, param in enumerate(group["params"])
    ]
    number, index, _ = next(place for place in places if getattr(place[2].grad, "dtype", None) is torch.float16)
    return (
        f"Attempting to unscale FP16 gradients. That of {_name(optimizer, number, index)} is float16: keep the "
        "parameters in float32 and let autocast choose, or take an optimizer of polycast.syncfree and leave unscale_ "
        "out, so that the step unscales in registers"
    )
