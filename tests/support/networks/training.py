"""A training of a network: a function that makes a step, and the batches for it."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import polycast
import torch
from torch import Tensor, nn

Batch: TypeAlias = tuple[Tensor, ...]
Step: TypeAlias = Callable[[Batch], Tensor]


class Training(NamedTuple):
    """What tune takes: ``make()`` draws new weights by torch's random numbers, ``step(batch)`` returns the loss."""

    name: str
    make: Callable[[], Step]
    batches: list[Batch]


def training(
    name: str,
    build: Callable[[], nn.Module],
    loss: Callable[..., Tensor],
    batches: list[Batch],
    device: str,
    dtype: torch.dtype | None,
    lr: float = 2e-3,
) -> Training:
    """Return a training by AdamW in a region of the dtype, with a scaler for float16; None trains in float32.

    Args:
        build: Returns the network, with weights of torch's random numbers.
        loss: Takes the network and the tensors of a batch.
        batches: On any device.
    """

    def make() -> Step:
        model = build().to(device)
        optimizer = polycast.syncfree.AdamW(model.parameters(), lr=lr)
        scaler = polycast.GradScaler(enabled=dtype is torch.float16)

        def step(batch: Batch) -> Tensor:
            with polycast.autocast(device, dtype=dtype, enabled=dtype is not None):
                value = loss(model, *batch)
            scaler.scale(value).backward()  # type: ignore[no-untyped-call]
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            _end_step(device)
            return value.detach()

        return step

    return Training(name, make, [tuple(tensor.to(device) for tensor in batch) for batch in batches])


def _end_step(device: str) -> None:
    """Make XLA compile the step, or reuse it, and start it."""
    if torch.device(device).type == "xla":
        import torch_xla

        torch_xla.sync()
