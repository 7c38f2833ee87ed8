"""Accelerate: our gradient scaler in an ``Accelerator``, on every device."""

from typing import Any

import torch
from accelerate import Accelerator

from polycast.scaler.grad_scaler import GradScaler


def use(accelerator: Accelerator, **scaler_options: Any) -> GradScaler:
    """Set our scaler in an accelerator with ``mixed_precision="fp16"``, and enable the accelerator's autocast.

    Without the call, Accelerate silently runs ``fp16`` on the CPU in float32.

    Accelerate's schedulers do not advance in a skipped step, which Accelerate detects by checking whether
    ``optimizer.step`` was called. Therefore ``skip_on_host`` is true by default, which costs one device sync in each
    step. With ``skip_on_host=False``, sync-free optimizers do not sync; use :class:`polycast.SkipAwareLR` then.
    Accelerate replaces ``step``, so gradients are unscaled in place before the step, as in stock PyTorch.

    Args:
        accelerator: An accelerator that has not prepared a model or an optimizer, because ``prepare`` adds autocast to
            models and the scaler to optimizers.
        scaler_options: Options of :class:`polycast.GradScaler`, except for the device. They override the options of a
            ``GradScalerKwargs`` among the accelerator's ``kwargs_handlers``.

    Returns:
        The scaler. It is also ``accelerator.scaler``, and ``accelerator.save_state`` saves it.

    Raises:
        ValueError: If the accelerator has another precision, or the scaler rejects an option.
        RuntimeError: If the accelerator has prepared a model or an optimizer.

    Example:
        >>> import torch, polycast
        >>> from accelerate import Accelerator
        >>> from polycast.integrations import accelerate
        >>> accelerator = Accelerator(cpu=True, mixed_precision="fp16")
        >>> scaler = accelerate.use(accelerator, init_scale=2.0**10)
        >>> model = torch.nn.Linear(4, 2)
        >>> model, optimizer = accelerator.prepare(model, polycast.syncfree.SGD(model.parameters(), lr=0.1))
        >>> accelerator.backward(model(torch.ones(8, 4)).mean())
        >>> _ = accelerator.clip_grad_norm_(model.parameters(), 1.0)
        >>> optimizer.step()
        >>> optimizer.step_was_skipped
        False
    """
    if accelerator.mixed_precision != "fp16":
        raise ValueError(
            f"accelerator: expected mixed_precision='fp16', got {accelerator.mixed_precision!r}; do not call use() for "
            "a precision that needs no gradient scaler"
        )
    # A prepared optimizer would step with scaled gradients, and a prepared model would run in float32 on the CPU.
    if accelerator._models or accelerator._optimizers:
        raise RuntimeError("accelerator: expected no prepared model or optimizer, got one; call use() before prepare()")
    handler = accelerator.scaler_handler
    options = {"skip_on_host": True} | (handler.to_kwargs() if handler is not None else {}) | scaler_options
    scaler = GradScaler(torch.device(accelerator.device), **options)
    accelerator.scaler, accelerator.native_amp = scaler, True
    return scaler
