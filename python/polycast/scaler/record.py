"""The findings in the gradients of one optimizer, and its skipped steps: tensors on their devices, read when asked."""

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from polycast._compiled import DeviceGradients, gather_gradients
from polycast.scaler.clipping import multiply
from polycast.scaler.sharding import Finding, Ranks, measured, shards_of, total_norm

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
        self.ranks: tuple[Ranks, ...] = ()  # that know what the last pass found
        self._findings: list[Finding] = []
        self._skips: Skips | None = None
        self._taken = (0, 0)  # steps, and skipped ones, when it was last read that one was taken

    def look(self, optimizer: Optimizer) -> FoundInf:
        """Look for infinities and NaNs, in one pass that writes nothing."""
        findings = []
        for gradients in gather_gradients(optimizer.param_groups):
            findings.append(Finding(gradients.device, gradients, *gradients.find_non_finite()))
        return self._remember(optimizer, findings)

    def unscale(self, optimizer: Optimizer, inv_scale: Tensor, allow_float16: bool) -> FoundInf:
        """Multiply gradients in place, and look for infinities and NaNs, in the same pass.

        Raises:
            ValueError: As in torch: a gradient is of float16, whose range the unscaled gradients might not fit.
        """
        findings = []
        for gradients in _to_write(optimizer, allow_float16):
            found_inf = torch.zeros((), dtype=torch.float32, device=gradients.device)
            non_finite = gradients.unscale_(found_inf, inv_scale.to(gradients.device, non_blocking=True))
            findings.append(Finding(gradients.device, gradients, found_inf, non_finite))
        return self._remember(optimizer, findings)

    def measure(self, optimizer: Optimizer, norm_type: float, device: torch.device) -> tuple[Tensor, FoundInf]:
        """Return the norm of all gradients, and what `look` does, in the same pass."""
        findings = measured(gather_gradients(optimizer.param_groups), norm_type)
        found_infs = self._remember(optimizer, findings, with_norms=True)
        return total_norm(self._findings, norm_type, device), found_infs

    def multiply(self, optimizer: Optimizer, factor: Tensor) -> None:
        """Multiply gradients in place, which were looked at before.

        Raises:
            ValueError: As `unscale`.
        """
        multiply(_to_write(optimizer, allow_float16=False), factor)

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
            for each in self._findings
            for position, flag in zip(each.positions, each.non_finite.tolist(), strict=True)
            if flag
        ]
        return [_name(optimizer, group, index) for group, index in sorted(found)]

    def _remember(self, optimizer: Optimizer, findings: list[Finding], with_norms: bool = False) -> FoundInf:
        """Keep what the ranks agree on, and return on each device whether any gradient was not finite."""
        for each in findings:
            assert each.gradients is not None
            each.gradients.release()
        distributed: Any = torch.distributed
        is_alone = not (distributed.is_available() and distributed.is_initialized())
        shards = None if is_alone else shards_of(optimizer.param_groups)
        self._findings = shards.agreed(findings, with_norms) if shards else findings
        self.ranks = shards.ranks if shards else ()
        found_infs: FoundInf = {}
        for each in self._findings:
            found_infs[each.device] = each.found_inf
        return found_infs


def _to_write(optimizer: Optimizer, allow_float16: bool) -> list[DeviceGradients]:
    gathered: list[DeviceGradients] = gather_gradients(optimizer.param_groups, coalesce_in_place=True)
    if not allow_float16 and any(gradients.has_float16() for gradients in gathered):
        raise ValueError(_float16_text(optimizer))
    return gathered


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
        "parameters in float32 and let autocast choose, or take an optimizer of polycast.syncfree whose step unscales "
        "in registers, without unscale_, step hooks, a closure or a step that is not its own"
    )
