"""One step of one optimizer under a gradient scaler: look at the gradients, clip them, step or skip.

Three kinds of optimizers differ in who unscales and who skips: the host, torch's fused step, a sync-free step.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as TorchGradScaler
from torch.amp.grad_scaler import OptState

from polycast._clipping import clip_coef, clip_in_place
from polycast._step_record import StepRecord

Optimizer = torch.optim.Optimizer


class ScaledStep:
    """The step of any optimizer: its gradients are unscaled and clipped in place, and the host steps it or does not.

    The state is torch's, of this optimizer and this iteration: "stage" and "found_inf_per_device". Clipping adds
    "clipped_in", the batch whose gradients it looked at, and where the step clips "clip_coef", the factor.
    """

    __slots__ = ("optimizer", "record", "scale", "scaler", "state")
    skips_by_itself = False

    def __init__(self, scaler: TorchGradScaler, scale: Tensor, optimizer: Optimizer, record: StepRecord) -> None:
        self.scaler, self.scale, self.optimizer, self.record = scaler, scale, optimizer, record
        self.state: dict[str, Any] = scaler._per_optimizer_states[id(optimizer)]

    def look(self) -> Tensor:
        """Look for infinities and NaNs if nobody has, raise what torch raises before a step, and return found_inf."""
        if self.state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        self._look()
        assert len(self.state["found_inf_per_device"]) > 0, "No inf checks were recorded for this optimizer."
        return self.found_inf()

    def clip(self, max_norm: float, norm_type: float) -> Tensor:
        """Clip the norm of the gradients, and return what it was."""
        self._unscale()
        return clip_in_place(self.optimizer, max_norm, norm_type)

    def take(self, found_inf: Tensor, **kwargs: Any) -> float | None:
        """Step; where the host was not asked, the optimizer skips if the element is 1."""
        result = self._take(found_inf, **kwargs)
        self.end()
        return result

    def end(self) -> None:
        """Take note that there is no other step before the next update."""
        self.state["stage"] = OptState.STEPPED

    def found_inf(self) -> Tensor:
        """Return one element on the device of the scale: 1 where a gradient was found not to be finite, else 0."""
        return any_of(self.state["found_inf_per_device"].values(), self.scale.device)

    def _look(self) -> None:
        self._unscale()

    def _unscale(self) -> None:
        if self.state["stage"] is OptState.READY:
            self.scaler.unscale_(self.optimizer)

    def _take(self, found_inf: Tensor, **kwargs: Any) -> float | None:  # noqa: ARG002
        step: Callable[..., float | None] = self.optimizer.step
        return step(**kwargs)

    def _grad_scale(self) -> Tensor | None:
        """Return what the step has to divide the gradients by: nothing once they were unscaled in place."""
        return self.scale if self.state["stage"] is OptState.READY else None


class FusedStep(ScaledStep):
    """The step of one of torch's fused optimizers, which unscales and skips; attributes tell it, torch's protocol."""

    __slots__ = ()
    skips_by_itself = True

    def _look(self) -> None:
        is_looked_at = self.state["found_inf_per_device"] or "clipped_in" in self.state
        if self.state["stage"] is OptState.READY and not is_looked_at:
            self.scaler._check_inf_per_device(self.optimizer)

    def _take(self, found_inf: Tensor, **kwargs: Any) -> float | None:
        fused: Any = self.optimizer
        fused.grad_scale, fused.found_inf = self._grad_scale(), found_inf
        try:
            return super()._take(found_inf, **kwargs)
        finally:
            del fused.grad_scale, fused.found_inf


class SyncFreeStep(FusedStep):
    """The step of an optimizer that takes found_inf, grad_scale and clip_coef: it unscales, clips and skips."""

    __slots__ = ()

    def clip(self, max_norm: float, norm_type: float) -> Tensor:
        """Have the step clip; the gradients keep their values."""
        norm = self.record.measure(self.optimizer, norm_type, self.scale.device)
        if self.state["stage"] is OptState.READY:
            norm = norm / self.scale
        earlier = self.state.get("clip_coef")
        if earlier is not None:
            norm = norm * earlier
        elif self.state["stage"] is OptState.READY:
            self.state["found_inf_per_device"] = self.record.found_inf
        coef = clip_coef(norm, max_norm)
        self.state["clip_coef"] = coef if earlier is None else earlier * coef
        return norm

    def _take(self, found_inf: Tensor, **kwargs: Any) -> float | None:
        step: Callable[..., float | None] = self.optimizer.step
        clip = self.state.get("clip_coef")
        return step(**kwargs, found_inf=found_inf, grad_scale=self._grad_scale(), clip_coef=clip)


def kind_of(optimizer: Optimizer) -> type[ScaledStep]:
    """Return which kind of step an optimizer takes."""
    if takes_found_inf(optimizer):
        return SyncFreeStep
    return FusedStep if getattr(optimizer, "_step_supports_amp_scaling", False) else ScaledStep


def takes_found_inf(optimizer: Optimizer) -> bool:
    """Return whether the step of an optimizer takes found_inf, grad_scale and clip_coef."""
    return bool(getattr(optimizer, "takes_found_inf", False))


def any_of(found_infs: Iterable[Tensor], device: torch.device) -> Tensor:
    """Return one element on the device that is 1 where any is, else 0.

    Torch's fused optimizers skip where it is 1, and for no other value.
    """
    moved = [
        found_inf if found_inf.device == device else found_inf.to(device, non_blocking=True) for found_inf in found_infs
    ]
    if len(moved) == 1:
        return moved[0]
    return torch.stack(moved).max() if moved else torch.zeros((), device=device)


def read(found_inf: Tensor) -> bool:
    """Wait for the device, and return whether the element is set."""
    return bool(found_inf.item())
