"""What the tests of the documents' training loops share: data, a network, the loop, and how losses are compared."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.support.devices import lower_precision

READS = pytest.mark.filterwarnings("ignore:each step of .* waits until the device:UserWarning")
TOLERANCE = {torch.float16: 0.01, torch.bfloat16: 0.05}
Batch = tuple[Tensor, Tensor]
loss_fn = nn.MSELoss()


def lower(device: str) -> torch.dtype:
    """Return the dtype that loops with a scaler run in: float16, where the device has it."""
    listed = lower_precision(device)
    return torch.float16 if torch.float16 in listed else listed[0]


def sync(device: str) -> None:
    if device == "xla":
        import torch_xla

        torch_xla.sync()


def data(device: str, steps: int = 8, same: bool = False) -> Iterator[Batch]:
    """Yield batches of a linear problem on the device, and have XLA run each step, as its loaders do."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(8, 2, generator=generator)
    inputs = torch.randn(steps, 16, 8, generator=generator)
    for number in range(steps):
        batch = inputs[0 if same else number]
        yield batch.to(device), (batch @ weight).to(device)
        sync(device)


def network(device: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)


class Amp(NamedTuple):
    """What a loop takes from a package: ours on a device, or torch in float32 on the host to compare with."""

    device: str
    optim: Any
    autocast: Callable[[], AbstractContextManager[Any]]
    GradScaler: Callable[..., Any]


def ours(device: str, optim: Any = syncfree, dtype: torch.dtype | None = None) -> Amp:
    def scaler(init_scale: float = 256.0) -> polycast.GradScaler:
        return polycast.GradScaler(init_scale=init_scale)

    return Amp(device, optim, lambda: polycast.autocast(device, dtype or lower(device)), scaler)


def float32() -> Amp:
    def scaler(_: float = 1.0) -> Scaler:
        return Scaler("cpu", enabled=False)

    return Amp("cpu", torch.optim, lambda: torch.autocast("cpu", enabled=False), scaler)


def floats(values: list[Tensor]) -> list[float]:
    return [float(value) for value in torch.stack(values).cpu()]


def compare(found: list[Tensor], wanted: list[Tensor], dtype: torch.dtype, fall: float = 0.5) -> None:
    """The losses fall as they do in float32, to a share of the first at least."""
    losses, reference = floats(found), floats(wanted)
    assert losses == pytest.approx(reference, rel=TOLERANCE[dtype], abs=TOLERANCE[dtype] * reference[0] / 4)
    assert losses[-1] < fall * losses[0]


class Run(NamedTuple):
    """What a training leaves: losses, the dtypes of the outputs, and what it trained with."""

    losses: list[Tensor]
    dtypes: list[torch.dtype]
    scaler: Any
    optimizer: Any


def scaled_step(scaler: Any, optimizer: Any, loss: Any) -> None:
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def train(
    amp: Amp,
    model: Any = None,
    params: list[Tensor] | None = None,
    step: Callable[[Any, Any, Any], None] = scaled_step,
    init_scale: float = 256.0,
    same: bool = False,
    steps: int = 8,
    **options: float,
) -> Run:
    """Train as the documents' typical loop does; step is what comes after the forward pass."""
    model = model or network(amp.device)
    optimizer = amp.optim.SGD(params or model.parameters(), **{"lr": 0.1} | options)
    scaler = amp.GradScaler(init_scale)
    losses, dtypes = [], []
    for inputs, targets in data(amp.device, steps, same):
        optimizer.zero_grad()
        with amp.autocast():
            output = model(inputs)
            loss = loss_fn(output, targets)
        step(scaler, optimizer, loss)
        losses.append(loss.detach())
        dtypes.append(output.dtype)
    return Run(losses, dtypes, scaler, optimizer)
