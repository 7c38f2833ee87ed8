"""Timm: its ``NativeScaler`` with our gradient scaler, on every device."""

from typing import Any

import timm.utils
import torch

from polycast.scaler.grad_scaler import GradScaler


class NativeScaler(timm.utils.NativeScaler):  # type: ignore[misc]
    """A ``timm.utils.NativeScaler`` with our scaler. Import it instead of timm's.

    Like timm's class, it scales, clips in each of timm's modes, steps and saves. Both load each other's checkpoints.

    Args:
        device: The device type, which timm's scripts pass. None uses the device of the first loss.
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
    """

    def __init__(self, device: str | torch.device | None = None, **scaler_options: Any) -> None:
        self._scaler = GradScaler(device, **scaler_options)
