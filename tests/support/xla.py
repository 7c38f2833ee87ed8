"""What the tests on XLA share: marks, moving tensors there, and counting compiles and syncs of torch_xla."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.probe import HAS_XLA, NO_XLA

NEEDS_XLA = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)


def on_xla(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return leaves on XLA of the same values."""
    return [tensor.detach().to("xla").requires_grad_(tensor.requires_grad) for tensor in tensors]


def xla() -> torch.device:
    import torch_xla

    device: torch.device = torch_xla.device()
    return device


def set_lr(optimizer: torch.optim.Optimizer, lr: float | Tensor) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr


def sync() -> None:
    import torch_xla

    torch_xla.sync(wait=True)


class Traffic:
    """Counts compiles and device-to-host transfers since it was made."""

    def __init__(self) -> None:
        from torch_xla.debug import metrics

        metrics.clear_all()
        self._metrics: Any = metrics

    def compiles(self) -> int:
        return int(self._metrics.counter_value("UncachedCompile") or 0)

    def reads(self) -> int:
        data = self._metrics.metric_data("TransferFromDeviceTime")
        return 0 if data is None else int(data[0])
