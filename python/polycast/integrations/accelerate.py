"""Accelerate: our gradient scaler in an ``Accelerator``, on every device."""

from typing import Any

import torch
from accelerate import Accelerator

from polycast.scaler.grad_scaler import GradScaler


def use(accelerator: Accelerator, **scaler_options: Any) -> GradScaler:
    """Have an accelerator of ``mixed_precision="fp16"`` scale with ours, and autocast to float16, on the CPU too.

    Accelerate runs float16 on the CPU in float32, and says nothing of it. Here it runs as it was asked to.

    Accelerate knows of a skipped step, and its schedulers stay where they are, by watching whether ``optimizer.step``
    is called. So ``skip_on_host`` is true unless it is given: one sync in each step. With ``skip_on_host=False``
    no step syncs, and :class:`polycast.SkipAwareLR` is the schedule that knows. Accelerate gives the optimizer a
    ``step`` of its own, so gradients are unscaled in place before it, as in stock.

    Args:
        accelerator: One that has prepared no optimizer yet: each is given its scaler then.
        scaler_options: Those of :class:`polycast.GradScaler`; the device is the accelerator's. They go before those of
            a ``GradScalerKwargs`` among the accelerator's ``kwargs_handlers``.

    Returns:
        The scaler, which is ``accelerator.scaler`` too, and travels in what ``accelerator.save_state`` saves.

    Raises:
        ValueError: The accelerator is of another precision: bfloat16 needs no scaling, float32 neither.
        RuntimeError: An optimizer was prepared before.

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
