"""Accelerate: our gradient scaler in an ``Accelerator``, on every device."""

from typing import Any

import torch
from accelerate import Accelerator

from polycast.scaler.grad_scaler import GradScaler


def use(accelerator: Accelerator, **scaler_options: Any) -> GradScaler:
    """Give an accelerator of ``mixed_precision="fp16"`` our gradient scaler, and autocast to float16 on every device.

    Without it, Accelerate silently runs ``fp16`` on the CPU in float32.

    Accelerate detects a skipped step, in which its schedulers do not advance, by checking whether ``optimizer.step``
    was called. So ``skip_on_host`` is true by default, which costs one sync in each step. With ``skip_on_host=False``
    no step syncs; use :class:`polycast.SkipAwareLR` as the schedule. Accelerate gives the optimizer a ``step`` of its
    own, so gradients are unscaled in place before the step, as in stock PyTorch.

    Args:
        accelerator: An accelerator that has not prepared an optimizer yet, because ``prepare`` gives it the scaler.
        scaler_options: Options of :class:`polycast.GradScaler`; the device is the accelerator's. They override the
            options of a ``GradScalerKwargs`` among the accelerator's ``kwargs_handlers``.

    Returns:
        The scaler. It is also ``accelerator.scaler``, and ``accelerator.save_state`` saves it.

    Raises:
        ValueError: If the accelerator has another precision: bfloat16 and float32 need no scaling.
        RuntimeError: If an optimizer was prepared before.

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

    Source: the documents of ``accelerate.Accelerator``.
    """
    if accelerator.mixed_precision != "fp16":
        raise ValueError(
            f"the accelerator's mixed_precision is {accelerator.mixed_precision!r}, which needs no gradient scaler; "
            "give it 'fp16', or leave use() out"
        )
    if accelerator._optimizers:  # no public name, and what was prepared would step unscaled gradients
        raise RuntimeError("use() is called after an optimizer was prepared without it; call it before prepare()")
    handler = accelerator.scaler_handler
    options = {"skip_on_host": True} | (handler.to_kwargs() if handler is not None else {}) | scaler_options
    scaler = GradScaler(torch.device(accelerator.device), **options)
    accelerator.scaler, accelerator.native_amp = scaler, True
    return scaler
