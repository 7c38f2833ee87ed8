"""What a gradient scaler knows of the steps of one optimizer, kept as tensors on their devices."""

import torch
from torch import Tensor

from polycast import _sharding
from polycast._compiled import DeviceGradients, gather_gradients


class StepRecord:
    """The findings of the last pass over the gradients of an optimizer, and its skipped steps."""

    def __init__(self) -> None:
        self.found_inf: dict[torch.device, Tensor] = {}
        self._flags: list[tuple[DeviceGradients, Tensor]] = []
        self.steps = 0  # taken or skipped
        self._last: Tensor | None = None
        self._total: Tensor | None = None

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        """Look for infinities and NaNs, in one pass that writes nothing."""
        self._forget()
        self._keep([(gradients, *gradients.check()) for gradients in gather_gradients(optimizer.param_groups)])

    def unscale(self, gathered: list[DeviceGradients], inv_scale: Tensor) -> None:
        """Multiply gradients in place, and look for infinities and NaNs, in the same pass."""
        self._forget()
        findings = []
        for gradients in gathered:
            found_inf = torch.zeros((), dtype=torch.float32, device=gradients.device)
            non_finite = gradients.unscale_(found_inf, inv_scale.to(gradients.device, non_blocking=True))
            findings.append((gradients, found_inf, non_finite))
        self._keep(findings)

    def measure(self, optimizer: torch.optim.Optimizer, norm_type: float, device: torch.device) -> Tensor:
        """Do what `check` does, and return the norm of all gradients, in the same pass."""
        self._forget()
        gathered = gather_gradients(optimizer.param_groups)
        norms, findings = [], []
        for gradients in gathered:
            norm, found_inf, non_finite = gradients.norm(norm_type)
            norms.append(norm)
            findings.append((gradients, found_inf, non_finite))
        self._keep(findings)
        return _sharding.total_norm(gathered, norms, norm_type, device)

    def count(self, found_inf: Tensor) -> None:
        """Record a step, skipped where the element is not zero."""
        self.steps += 1
        self._last = found_inf != 0
        skipped = self._last.to(torch.int64)
        self._total = skipped if self._total is None else self._total + skipped

    def last(self, device: torch.device) -> Tensor:
        """Return whether the last step was skipped."""
        return torch.zeros((), dtype=torch.bool, device=device) if self._last is None else self._last

    def total(self, device: torch.device) -> Tensor:
        """Return how many steps were skipped."""
        return torch.zeros((), dtype=torch.int64, device=device) if self._total is None else self._total

    def non_finite(self, optimizer: torch.optim.Optimizer) -> list[str]:
        """Return the names of the parameters whose gradients were not finite; reads from the devices."""
        found = [
            position
            for gradients, flags in self._flags
            for position, flag in zip(gradients.positions, flags.tolist(), strict=True)
            if flag
        ]
        return [_name(optimizer, group, index) for group, index in sorted(found)]

    def _keep(self, findings: list[_sharding.Finding]) -> None:
        for gradients, _, _ in findings:
            gradients.release()
        for gradients, found_inf, non_finite in _sharding.shared(findings):
            self.found_inf[gradients.device] = found_inf
            self._flags.append((gradients, non_finite))

    def _forget(self) -> None:
        # A new dict: the scaler holds on to the last one until its update.
        self.found_inf = {}
        self._flags = []


def _name(optimizer: torch.optim.Optimizer, group: int, index: int) -> str:
    names = optimizer.param_groups[group].get("param_names")
    return str(names[index]) if names else f"param_groups[{group}]['params'][{index}]"
