"""Lightning: a precision plugin with our regions and our scaler, which clips inside the step."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

import torch

from polycast.region import autocast
from polycast.scaler.grad_scaler import GradScaler
from polycast.scope.contexts import Region

# Lightning has two packages with separate classes. A trainer accepts only plugins of its own package.
_is_older = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
_LIGHTNING = "pytorch_lightning" if _is_older else "lightning.pytorch"
GradClipAlgorithmType: Any = import_module(f"{_LIGHTNING}.utilities").GradClipAlgorithmType
MixedPrecision: Any = import_module(f"{_LIGHTNING}.plugins.precision").MixedPrecision


class Precision(MixedPrecision):  # type: ignore[misc]
    """A precision plugin with polycast's scaler and regions: ``Trainer(plugins=Precision("16-mixed", "cpu"))``.

    With "16-mixed" and ``gradient_clip_val``, a sync-free optimizer clips by norm inside its step, so ``.grad`` is not
    clipped. Lightning's own plugin cannot clip for optimizers that unscale in their step. ``on_before_optimizer_step``
    receives gradients that are unscaled and not clipped, as Lightning documents.

    Lightning's schedulers advance even if a step is skipped. For a schedule that pauses in skipped steps, return a
    :class:`polycast.SkipAwareLR` over ``self.trainer.precision_plugin.scaler`` from ``configure_optimizers``.

    Args:
        precision: "16-mixed" or "bf16-mixed".
        device: A device type: "cpu", "cuda", "xpu", ...
        scaler_options: Options of :class:`polycast.GradScaler`. "bf16-mixed" has no scaler and accepts no options.

    Raises:
        TypeError: If the precision is "bf16-mixed" and there are options of a scaler.
        ValueError: If the precision has another value, or the scaler rejects an option.

    Example:
        >>> from polycast.integrations.lightning import Precision
        >>> Precision("16-mixed", "cpu", init_scale=1024.0).scaler.get_scale()
        1024.0

    If only ``pytorch_lightning`` is imported before this module, the plugin is for that package.
    """

    def __init__(self, precision: Literal["16-mixed", "bf16-mixed"], device: str, **scaler_options: Any) -> None:
        if precision == "bf16-mixed" and scaler_options:
            raise TypeError(f"scaler_options: expected none for bf16-mixed, got {', '.join(scaler_options)}; omit them")
        scaler = GradScaler(device, **scaler_options) if precision == "16-mixed" else None
        super().__init__(precision, device, scaler)
        self._has_loss = True  # Lightning clips without a loss, but then does not step

    def optimizer_step(self, optimizer: Any, model: Any, closure: Callable[[], Any], **kwargs: Any) -> Any:
        """Step as Lightning does, and record whether there is a loss. Lightning clips even if there is none."""

        def compute() -> Any:
            loss = closure()
            self._has_loss = loss is not None or not model.automatic_optimization
            return loss

        return super().optimizer_step(optimizer, model, compute, **kwargs)

    def clip_gradients(
        self,
        optimizer: torch.optim.Optimizer,
        clip_val: float = 0.0,
        gradient_clip_algorithm: Any = GradClipAlgorithmType.NORM,
    ) -> None:
        """Have the scaler clip the norm in the step. Without a scaler, or by value, Lightning clips in place."""
        if clip_val > 0 and self.scaler is not None and gradient_clip_algorithm == GradClipAlgorithmType.NORM:
            if self._has_loss:
                self.scaler.clip_grad_norm(optimizer, clip_val)
        else:
            super().clip_gradients(optimizer, clip_val, gradient_clip_algorithm)

    def autocast_context_manager(self) -> Region:
        """Return our region, with its cast cache. Lightning disables the cache of PyTorch's region."""
        return autocast(self.device, torch.float16 if self.precision == "16-mixed" else torch.bfloat16)
