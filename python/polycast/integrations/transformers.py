"""Transformers: a mixin that gives its ``Trainer`` our gradient scaler, on every device."""

from typing import Any, ClassVar

from polycast.integrations import accelerate
from polycast.scaler.grad_scaler import GradScaler


class ScalerMixin:
    """A base class before ``transformers.Trainer`` that gives a trainer of ``fp16=True`` our scaler.

    The trainer clips, skips, stops its schedule in a skipped step, and saves the scale, as it does with its own scaler.
    ``bf16=True`` needs neither a scaler nor the mixin: ``import polycast``, and optionally use an optimizer of
    :mod:`polycast.syncfree`.

    Example:
        >>> import transformers
        >>> from polycast.integrations.transformers import ScalerMixin
        >>> class Trainer(ScalerMixin, transformers.Trainer):
        ...     scaler_options = {"init_scale": 2.0**10}

    Source: the documents of ``transformers.Trainer``, whose ``create_accelerator_and_postprocess`` subclasses override.
    """

    #: Options of :class:`polycast.GradScaler`, as :func:`polycast.integrations.accelerate.use` accepts them.
    scaler_options: ClassVar[dict[str, Any]] = {}
    accelerator: Any

    def create_accelerator_and_postprocess(self) -> None:
        """Create the accelerator as the trainer does, and give it our scaler if its precision is float16."""
        super().create_accelerator_and_postprocess()  # type: ignore[misc]
        if self.accelerator.mixed_precision == "fp16":
            self.scaler: GradScaler = accelerate.use(self.accelerator, **self.scaler_options)
