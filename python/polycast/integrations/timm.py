"""Timm: its ``NativeScaler`` with our gradient scaler, and its registry of optimizers with ours."""

from dataclasses import replace
from typing import Any

import timm.utils
import torch
from timm.optim import get_optimizer_info, list_optimizers
from timm.optim._optim_factory import default_registry

from polycast import syncfree
from polycast.scaler.grad_scaler import GradScaler

_OURS = {torch.optim.SGD: syncfree.SGD, torch.optim.Adam: syncfree.Adam, torch.optim.AdamW: syncfree.AdamW}


class NativeScaler(timm.utils.NativeScaler):  # type: ignore[misc]
    """Timm's ``NativeScaler`` over our scaler, on every device: import it instead of timm's.

    It scales, clips in each of timm's modes, steps and saves as timm's does. Checkpoints load in both directions.

    Args:
        device: A device type, as timm gives it. None uses the device of the first loss.
        scaler_options: Options of :class:`polycast.GradScaler`.

    Raises:
        ValueError, TypeError: If :class:`polycast.GradScaler` rejects an option.

    Example:
        >>> import torch, polycast
        >>> from polycast.integrations.timm import NativeScaler
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer, loss_scaler = polycast.syncfree.SGD(model.parameters(), lr=0.1), NativeScaler(init_scale=2.0**10)
        >>> loss = model(torch.ones(8, 4)).mean()
        >>> loss_scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        >>> loss_scaler.state_dict()["scale"]
        1024.0

    Source: the source of ``timm.utils.NativeScaler``.
    """

    def __init__(self, device: str | torch.device | None = None, **scaler_options: Any) -> None:
        self._scaler = GradScaler(device, **scaler_options)


def use() -> None:
    """Have timm create our optimizers under its names for PyTorch's SGD, Adam and AdamW, in this process.

    Timm's options for each name stay: "sgd" has Nesterov momentum, "momentum" does not.

    Example:
        >>> import torch, timm.optim
        >>> from polycast.integrations import timm as ours
        >>> ours.use()
        >>> type(timm.optim.create_optimizer_v2(torch.nn.Linear(4, 2), opt="adamw"))
        <class 'polycast.syncfree.adam.AdamW'>

    Source: the documents of ``timm.optim``.
    """
    for name in list_optimizers():
        info = get_optimizer_info(name)
        if info.opt_class in _OURS:
            # An alias replaces a name without timm's warning that the name is taken.
            default_registry.register(replace(info, name=f"syncfree{name}", opt_class=_OURS[info.opt_class]))
            default_registry.register_alias(name, f"syncfree{name}")
