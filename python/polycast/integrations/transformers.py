"""Transformers: a mixin with our gradient scaler for its ``Trainer``, on every device."""

from typing import Any, ClassVar

from polycast.integrations import accelerate
from polycast.scaler.grad_scaler import GradScaler


class ScalerMixin:
    """A mixin that sets our scaler in a trainer with ``fp16=True``. List it before ``transformers.Trainer``.

    The trainer clips, skips steps without advancing the schedule, and saves the scale, as with its own scaler.
    ``bf16=True`` needs no mixin: ``import polycast`` is enough. An optimizer of :mod:`polycast.syncfree` is optional.

    Example:
        >>> import transformers
        >>> from polycast.integrations.transformers import ScalerMixin
        >>> class Trainer(ScalerMixin, transformers.Trainer):
        ...     scaler_options = {"init_scale": 2.0**10}
    """

    #: Options of :class:`polycast.GradScaler`, as :func:`polycast.integrations.accelerate.use` accepts them.
    scaler_options: ClassVar[dict[str, Any]] = {}
    accelerator: Any

    def create_accelerator_and_postprocess(self) -> None:
        """Create the trainer's accelerator, and set our scaler in it if its precision is float16."""
        super().create_accelerator_and_postprocess()  # type: ignore[misc]
        if self.accelerator.mixed_precision == "fp16":
            self.scaler: GradScaler = accelerate.use(self.accelerator, **self.scaler_options)
