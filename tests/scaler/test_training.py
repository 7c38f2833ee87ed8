"""Training with a gradient scaler on every device: whole iterations do not sync, and skipped steps change no bit."""

from typing import Any, NamedTuple

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn

from tests.scaler.common import INF
from tests.support.devices import no_syncs_of_steps, synchronize
from tests.support.optimizers import on_host, same_bits, tensors

ITERATIONS = 100
LOOKS = pytest.mark.parametrize("look", ["unscale_", "clip_grad_norm"])


class Training(NamedTuple):
    """A model with two optimizers, of which one has a schedule."""

    device: str
    model: nn.Sequential
    optimizers: list[Any]
    scaler: polycast.GradScaler
    schedule: polycast.SkipAwareLR

    def step(self, inputs: Tensor, factor: Tensor) -> None:
        """Go forward and backward, clip, step and update; the factor multiplies the loss."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        with polycast.autocast(self.device):
            output = self.model(inputs)
        loss = output.float().square().mean() * factor
        self.scaler.scale(loss).backward()
        for optimizer in self.optimizers:
            self.scaler.clip_grad_norm(optimizer, max_norm=0.1)
            self.scaler.step(optimizer)
        self.scaler.update()

    def iterate(self, inputs: Tensor, factor: Tensor) -> None:
        """Train once."""
        self.step(inputs, factor)
        self.schedule.step()
        synchronize(self.device)


def training(device: str) -> tuple[Training, Tensor, list[Tensor]]:
    """Return a training, inputs, and factors of the loss: 1 and infinity."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
    first = syncfree.AdamW(model[0].parameters(), lr=0.01)
    second = syncfree.SGD(model[2].parameters(), lr=0.1, momentum=0.9)
    scaler = polycast.GradScaler(init_scale=1024.0, growth_interval=5)
    schedule = polycast.SkipAwareLR(first, lambda steps: 0.99**steps, scaler)
    factors = [torch.tensor([factor]).to(device) for factor in (1.0, INF)]
    return Training(device, model, [first, second], scaler, schedule), torch.randn(16, 4).to(device), factors


def is_skipped(number: int) -> bool:
    return number % 7 == 4 or number in (50, 51, 52)


def test_a_hundred_iterations_do_not_sync(real_device: str) -> None:
    run, inputs, factors = training(real_device)
    with no_syncs_of_steps(real_device):
        for number in range(ITERATIONS):
            run.iterate(inputs, factors[is_skipped(number)])
    skips = sum(map(is_skipped, range(ITERATIONS)))
    assert [run.scaler.skip_count(optimizer).item() for optimizer in run.optimizers] == [skips, skips]
    assert run.schedule.get_last_lr() == pytest.approx([0.01 * 0.99 ** (ITERATIONS - skips)])
    assert all(tensor.isfinite().all().item() for tensor in tensors(run.optimizers[0]))


def test_a_captured_iteration_does_what_the_iteration_does(real_device: str) -> None:
    module: Any = getattr(torch, real_device, None)
    kind = getattr(module, f"{real_device.upper()}Graph", None)
    if kind is None:
        pytest.skip(f"{real_device} has no graphs that can be captured")
    graph, factor = kind(), torch.ones(1, device=real_device)
    (eager, inputs, _), (captured, *_) = training(real_device), training(real_device)
    stream = module.Stream()  # the first iterations make state, and must not run on the stream of the capture
    stream.wait_stream(module.current_stream())
    with module.stream(stream):
        for run in (eager, captured):
            for _ in range(3):
                run.step(inputs, factor)
    module.current_stream().wait_stream(stream)
    with module.graph(graph):
        captured.step(inputs, factor)
    for value in (1.0, INF, 1.0, 1.0):
        factor.fill_(value)
        before = [tensor.clone() for optimizer in captured.optimizers for tensor in tensors(optimizer)]
        graph.replay()
        eager.step(inputs, factor)
        after = [tensor for optimizer in captured.optimizers for tensor in tensors(optimizer)]
        assert value == 1.0 or all(map(same_bits, before, after))
        wanted = [tensor for optimizer in eager.optimizers for tensor in tensors(optimizer)]
        torch.testing.assert_close(after, wanted, rtol=1e-3, atol=1e-5)


def scaled_steps(device: str, dtype: torch.dtype, look: str, optim: Any = syncfree) -> list[Any]:
    """Return norms, and a parameter after each of three steps; the gradient of the second one is not finite."""
    weight = torch.ones(2, device=device, dtype=dtype)
    optimizer, scaler = optim.SGD([weight], lr=0.5, momentum=0.9), polycast.GradScaler(init_scale=4.0)
    seen: list[Any] = []
    for number in range(3):
        grad = torch.tensor([3.0, -4.0j if dtype.is_complex else -4.0], dtype=dtype) * (1 if number != 1 else INF)
        weight.grad = (4 * grad).to(device)
        scaler.scale(torch.ones(1, device=device))
        if look == "unscale_":
            scaler.unscale_(optimizer)
        elif look == "clip_grad_norm":
            seen.append(scaler.clip_grad_norm(optimizer, 1.0).clone())
        scaler.step(optimizer)
        scaler.update()
        seen.append(weight.clone())
    return on_host(seen)


@LOOKS
@pytest.mark.filterwarnings("ignore:each step of SGD waits")
def test_complex_parameters(look: str, real_device: str) -> None:
    for optim in (syncfree, torch.optim):
        found, wanted = (scaled_steps(device, torch.complex64, look, optim) for device in (real_device, "cpu"))
        torch.testing.assert_close(found, wanted, equal_nan=True)


@LOOKS
def test_inference_mode(look: str, real_device: str) -> None:
    """Torch's optimizers step in it, too, whether parameters were made there or not."""
    wanted = scaled_steps(real_device, torch.float32, look)
    with torch.inference_mode():
        torch.testing.assert_close(scaled_steps(real_device, torch.float32, look), wanted, equal_nan=True)
