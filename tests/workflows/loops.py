"""The training loops of the AMP examples, each as its document has it, with the device given and the losses kept."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import polycast
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.support.devices import lower_precision, synchronize

Batch = tuple[Tensor, Tensor]
loss_fn = nn.MSELoss()


def lower(device: str) -> torch.dtype:
    """Return the dtype that loops with a scaler run in: float16, where the device has it."""
    listed = lower_precision(device)
    return torch.float16 if torch.float16 in listed else listed[0]


def data(device: str, steps: int = 8, same: bool = False) -> Iterator[Batch]:
    """Yield batches of a linear problem on the device, and have XLA run each step, as its loaders do."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(8, 2, generator=generator)
    inputs = torch.randn(steps, 16, 8, generator=generator)
    for number in range(steps):
        batch = inputs[0 if same else number]
        yield batch.to(device), (batch @ weight).to(device)
        synchronize(device)


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


class Run(NamedTuple):
    """What a training leaves: losses, the dtype of the outputs, and what it trained with."""

    losses: list[Tensor]
    dtype: torch.dtype
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
    losses = []
    for inputs, targets in data(amp.device, steps, same):
        optimizer.zero_grad()
        with amp.autocast():
            output = model(inputs)
            loss = loss_fn(output, targets)
        step(scaler, optimizer, loss)
        losses.append(loss.detach())
    return Run(losses, output.dtype, scaler, optimizer)


def typical(amp: Amp) -> list[Tensor]:
    return train(amp).losses


def without_scaler(amp: Amp) -> list[Tensor]:
    """The loop of the XPU document: bfloat16 needs no scaler."""

    def step(_: Any, optimizer: Any, loss: Any) -> None:
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return train(amp, step=step).losses


def inspected(amp: Amp) -> list[Tensor]:
    """Clip by value what is unscaled."""
    model, seen = network(amp.device), []

    def step(scaler: Any, optimizer: Any, loss: Any) -> None:
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        grads = [param.grad for param in model.parameters() if param.grad is not None]
        seen.append(torch.stack([grad.abs().max() for grad in grads]).max())
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()

    losses = train(amp, model, step=step, lr=0.05, momentum=0.9).losses
    assert min(floats(seen)) > 0.5  # so that there is something to clip
    return losses


def clipped(amp: Amp) -> list[Tensor]:
    """Clip the norm: as the document does or, in the float32 loop's place, in the step."""
    model, norms = network(amp.device), list[Tensor]()

    def step(scaler: Any, optimizer: Any, loss: Any) -> None:
        scaler.scale(loss).backward()
        if isinstance(optimizer, syncfree.SGD):
            norms.append(scaler.clip_grad_norm(optimizer, 0.7))
        else:
            scaler.unscale_(optimizer)
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.7))
        scaler.step(optimizer)
        scaler.update()

    losses = train(amp, model, step=step, lr=0.2, momentum=0.8).losses
    assert min(floats(norms)) > 0.65
    return losses


def accumulated(amp: Amp) -> list[Tensor]:
    model, iters_to_accumulate = network(amp.device), 3
    optimizer = amp.optim.SGD(model.parameters(), lr=0.2)
    scaler = amp.GradScaler()
    losses = []
    for i, (inputs, targets) in enumerate(data(amp.device, 12)):
        with amp.autocast():
            output = model(inputs)
            loss = loss_fn(output, targets)
            loss = loss / iters_to_accumulate
        scaler.scale(loss).backward()
        if (i + 1) % iters_to_accumulate == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.5)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def penalized(amp: Amp) -> list[Tensor]:
    model = network(amp.device)
    optimizer = amp.optim.SGD(model.parameters(), lr=0.03)
    scaler = amp.GradScaler()
    losses = []
    for inputs, targets in data(amp.device, same=True):
        optimizer.zero_grad()
        with amp.autocast():
            output = model(inputs)
            loss = loss_fn(output, targets)
        scaled_grad_params = torch.autograd.grad(
            outputs=scaler.scale(loss), inputs=list(model.parameters()), create_graph=True
        )
        inv_scale = 1.0 / scaler.get_scale()
        grad_params = [p * inv_scale for p in scaled_grad_params]
        with amp.autocast():
            grad_norm: Any = 0
            for grad in grad_params:
                grad_norm += grad.pow(2).sum()
            grad_norm = grad_norm.sqrt()
            loss = loss + grad_norm
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return losses


def several(amp: Amp) -> list[Tensor]:
    model0, model1 = network(amp.device, 0), network(amp.device, 1)
    optimizer0 = amp.optim.SGD(model0.parameters(), lr=0.005)
    optimizer1 = amp.optim.AdamW(model1.parameters(), lr=0.02)
    scaler = amp.GradScaler()
    losses = []
    for inputs, targets in data(amp.device):
        optimizer0.zero_grad()
        optimizer1.zero_grad()
        with amp.autocast():
            output0 = model0(inputs)
            output1 = model1(inputs)
            loss0 = loss_fn(2 * output0 + 3 * output1, targets)
            loss1 = loss_fn(3 * output0 - 5 * output1, targets)
        scaler.scale(loss0).backward(retain_graph=True)
        scaler.scale(loss1).backward()
        scaler.unscale_(optimizer0)
        scaler.step(optimizer0)
        scaler.step(optimizer1)
        scaler.update()
        losses.append((loss0 + loss1).detach())
    return losses


# To what share of the first each loop's losses fall at least.
LOOPS: dict[str, tuple[Callable[[Amp], list[Tensor]], float]] = {
    "typical": (typical, 0.5),
    "without a scaler": (without_scaler, 0.5),
    "unscaled gradients": (inspected, 0.8),
    "clipping": (clipped, 0.8),
    "accumulation": (accumulated, 0.8),
    "penalty": (penalized, 0.85),
    "several models, losses and optimizers": (several, 0.8),
}
