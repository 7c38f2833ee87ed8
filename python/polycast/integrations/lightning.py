"""Lightning: a precision plugin that autocasts by the policy, scales with our scaler, and clips inside the step."""

import sys
from importlib import import_module
from typing import Any, Literal

import torch

from polycast.region import autocast
from polycast.scaler.grad_scaler import GradScaler
from polycast.scope.contexts import Region

# The package has two names, with separate classes. A trainer accepts a plugin of the name that it was imported by.
_is_older = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
_LIGHTNING = "pytorch_lightning" if _is_older else "lightning.pytorch"
GradClipAlgorithmType: Any = import_module(f"{_LIGHTNING}.utilities").GradClipAlgorithmType
MixedPrecision: Any = import_module(f"{_LIGHTNING}.plugins.precision").MixedPrecision


class Precision(MixedPrecision):  # type: ignore[misc]
    """Lightning's mixed precision with our scaler and regions: ``Trainer(plugins=Precision("16-mixed", "cpu"))``.

    ``gradient_clip_val`` clips inside the step of a sync-free optimizer, which writes no gradient for it; Lightning's
    own refuses to clip for the optimizers that unscale in their step. ``on_before_optimizer_step`` sees gradients that
    are unscaled and not clipped, as Lightning documents.

    Lightning steps its schedulers with the batches, skipped or not. A schedule that stays where it is in a skipped step
    is a :class:`polycast.SkipAwareLR` over ``self.trainer.precision_plugin.scaler``, in ``configure_optimizers``.

    Args:
        precision: "16-mixed" or "bf16-mixed".
        device: A device type: "cpu", "cuda", "xpu", ...
        scaler_options: Options of :class:`polycast.GradScaler`; "bf16-mixed" has no scaler and accepts none.

    Raises:
        TypeError: If the precision is "bf16-mixed" and there are options of a scaler.
        ValueError: If the precision is another one, or the scaler rejects an option.

    Example:
        >>> from polycast.integrations.lightning import Precision
        >>> Precision("16-mixed", "cpu", init_scale=1024.0).scaler.get_scale()
        1024.0

    If ``pytorch_lightning`` was imported before, the plugin is for that package instead.

    Source: the documents of ``lightning.pytorch.plugins.precision.MixedPrecision``.
    """

    def __init__(self, precision: Literal["16-mixed", "bf16-mixed"], device: str, **scaler_options: Any) -> None:
        if precision == "bf16-mixed" and scaler_options:
            raise TypeError(f"bf16-mixed has no scaler, and was given {', '.join(scaler_options)}; leave them out")
        scaler = GradScaler(device, **scaler_options) if precision == "16-mixed" else None
        super().__init__(precision, device, scaler)

    def clip_gradients(
        self,
        optimizer: torch.optim.Optimizer,
        clip_val: float = 0.0,
        gradient_clip_algorithm: Any = GradClipAlgorithmType.NORM,
    ) -> None:
        """Clip the norm inside the step; without a scaler, or by value, let Lightning clip in place."""
        if clip_val > 0 and self.scaler is not None and gradient_clip_algorithm == GradClipAlgorithmType.NORM:
            self.scaler.clip_grad_norm(optimizer, clip_val)
        else:
            super().clip_gradients(optimizer, clip_val, gradient_clip_algorithm)

    def autocast_context_manager(self) -> Region:
        """Return our region, whose cast cache need not be disabled as Lightning disables PyTorch's."""
        return autocast(self.device, torch.float16 if self.precision == "16-mixed" else torch.bfloat16)
