"""GradScaler on XLA: whole iterations read nothing back and compile nothing anew."""

import warnings
from typing import Any, NamedTuple

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn

from testing.optimizers import same_bits, tensors
from testing.probe import HAS_XLA, NO_XLA
from testing.xla import Traffic, sync

pytestmark = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)

INF = float("inf")
ITERATIONS = 100


class Training(NamedTuple):
    """A model on XLA with two optimizers, of which one has a schedule."""

    model: nn.Sequential
    optimizers: list[Any]
    scaler: polycast.GradScaler
    schedule: polycast.SkipAwareLR

    def iterate(self, inputs: Tensor, factor: Tensor) -> None:
        """Train once; the factor multiplies the loss."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        with polycast.autocast("xla"):
            output = self.model(inputs)
        loss = output.float().square().mean() * factor
        self.scaler.scale(loss).backward()
        for optimizer in self.optimizers:
            self.scaler.clip_grad_norm(optimizer, max_norm=0.1)
            self.scaler.step(optimizer)
        self.scaler.update()
        self.schedule.step()
        sync()


def training(**options: Any) -> Training:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to("xla")
    first = syncfree.AdamW(model[0].parameters(), lr=0.01)
    second = syncfree.SGD(model[2].parameters(), lr=0.1, momentum=0.9)
    scaler = polycast.GradScaler(init_scale=1024.0, growth_interval=5, **options)
    schedule = polycast.SkipAwareLR(torch.optim.lr_scheduler.ExponentialLR(first, 0.99), scaler, steps=ITERATIONS)
    return Training(model, [first, second], scaler, schedule)


def is_skipped(number: int) -> bool:
    return number % 7 == 4 or number in (50, 51, 52)


def test_a_hundred_iterations_read_nothing() -> None:
    run = training()
    inputs = torch.randn(16, 4).to("xla")
    factors = [torch.tensor([factor]).to("xla") for factor in (1.0, float("inf"))]
    traffic, compiles = Traffic(), []
    for number in range(ITERATIONS):
        run.iterate(inputs, factors[is_skipped(number)])
        compiles.append(traffic.compiles())
    assert traffic.reads() == 0
    assert compiles[2:] == [compiles[2]] * (ITERATIONS - 2)
    skips = sum(map(is_skipped, range(ITERATIONS)))
    assert [run.scaler.skip_count(optimizer).item() for optimizer in run.optimizers] == [skips, skips]
    assert run.schedule.get_last_lr() == pytest.approx([0.01 * 0.99 ** (ITERATIONS - skips)])
    assert all(tensor.isfinite().all().item() for tensor in tensors(run.optimizers[0]))


def test_skipped_steps_change_no_bit() -> None:
    run = training()
    inputs = torch.randn(16, 4).to("xla")
    one, infinite = [torch.tensor([factor]).to("xla") for factor in (1.0, float("inf"))]
    for _ in range(2):
        run.iterate(inputs, one)
    before = [[tensor.cpu() for tensor in tensors(optimizer)] for optimizer in run.optimizers]
    run.iterate(inputs, infinite)
    for optimizer, old in zip(run.optimizers, before, strict=True):
        assert all(same_bits(tensor.cpu(), value) for tensor, value in zip(tensors(optimizer), old, strict=True))
        assert run.scaler.skipped(optimizer).item() is True
    assert run.scaler.get_scale() == 512.0


def test_one_optimizer_skips_alone() -> None:
    a, b = [nn.Parameter(torch.ones(2, device="xla")) for _ in range(2)]
    optimizers = [syncfree.SGD([param], lr=1.0) for param in (a, b)]
    scaler = polycast.GradScaler()
    scaler.scale(a.sum() * float("inf") + b.sum()).backward()  # type: ignore[no-untyped-call]
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
    assert (a.tolist(), b.tolist()) == ([1.0, 1.0], [0.0, 0.0])
    assert scaler.non_finite(optimizers[0]) == ["param_groups[0]['params'][0]"]
    assert scaler.non_finite(optimizers[1]) == []


def test_expanded_gradients_are_unscaled_and_clipped_each_for_itself() -> None:
    """Autograd on XLA hands out gradients that are expanded from one element, and here all from the same one."""
    params = [nn.Parameter(torch.ones(size, device="xla")) for size in (1, 3, 1)]
    optimizer, scaler = syncfree.SGD(params, lr=1.0), polycast.GradScaler()
    scaler.scale(torch.stack([param.sum() for param in params]).sum()).backward()  # type: ignore[no-untyped-call]
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(params, 5**0.5 / 2, foreach=False)
    scaler.step(optimizer)
    for param in params:
        torch.testing.assert_close(param.detach().cpu(), torch.full(param.shape, 0.5))


def test_gradients_reduced_before_the_step() -> None:
    """Seeds 000 and 004: xm.all_reduce of fetched gradients."""
    import torch_xla.core.xla_model as xm
    from torch_xla import runtime

    weight = nn.Parameter(torch.ones(2, device="xla"))
    optimizer, scaler = syncfree.SGD([weight], lr=1.0), polycast.GradScaler()
    scaler.scale((weight * 3).sum()).backward()  # type: ignore[no-untyped-call]
    gradients = xm._fetch_gradients(optimizer)
    xm.all_reduce("sum", gradients, scale=1.0 / runtime.world_size())
    scaler.step(optimizer)
    scaler.update()
    sync()
    assert weight.tolist() == [-2.0, -2.0]


@pytest.mark.parametrize("clip", ["norm", "value"])
def test_unscaled_gradients_are_clipped_as_documented(clip: str) -> None:
    weight = nn.Parameter(torch.ones(2, device="xla"))
    optimizer, scaler = syncfree.SGD([weight], lr=1.0), polycast.GradScaler()
    traffic = Traffic()
    scaler.scale((weight * torch.tensor([3.0, 4.0]).to("xla")).sum()).backward()  # type: ignore[no-untyped-call]
    scaler.unscale_(optimizer)
    if clip == "norm":
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
    else:
        torch.nn.utils.clip_grad_value_([weight], 0.5)
    scaler.step(optimizer)
    scaler.update()
    sync()
    assert traffic.reads() == 0
    assert weight.tolist() == pytest.approx([0.4, 0.2] if clip == "norm" else [0.5, 0.5])


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
            seen.append(scaler.clip_grad_norm(optimizer, 1.0).cpu())
        scaler.step(optimizer)
        scaler.update()
        seen.append(weight.clone().cpu())
    return seen


LOOKS = pytest.mark.parametrize("look", ["step", "unscale_", "clip_grad_norm"])


@LOOKS
@pytest.mark.filterwarnings("ignore:each step of SGD waits")
def test_complex_parameters(look: str) -> None:
    for optim in (syncfree, torch.optim):
        found, wanted = (scaled_steps(device, torch.complex64, look, optim) for device in ("xla", "cpu"))
        torch.testing.assert_close(found, wanted, equal_nan=True)


@LOOKS
def test_inference_mode(look: str) -> None:
    """Torch's optimizers step in it, too, whether parameters were made there or not."""
    wanted = scaled_steps("xla", torch.float32, look)
    with torch.inference_mode():
        torch.testing.assert_close(scaled_steps("xla", torch.float32, look), wanted, equal_nan=True)


def test_torch_optimizers_are_told_of_the_remedy_once() -> None:
    weight = nn.Parameter(torch.ones(2, device="xla"))
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), polycast.GradScaler()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            scaler.scale(weight.sum()).backward()  # type: ignore[no-untyped-call]
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    (text,) = [str(warning.message) for warning in caught]
    assert text.startswith("each step of SGD waits") and "an optimizer of polycast.syncfree does not" in text
    assert weight.tolist() == [-1.0, -1.0]


def test_steps_together() -> None:
    a, b = [nn.Parameter(torch.ones(2, device="xla")) for _ in range(2)]
    optimizers = [syncfree.SGD([param], lr=1.0) for param in (a, b)]
    scaler = polycast.GradScaler()
    traffic = Traffic()
    for factor in (float("inf"), 1.0):
        scaler.scale(a.sum() * torch.tensor([factor]).to("xla") + b.sum()).backward()  # type: ignore[no-untyped-call]
        scaler.step_together(*optimizers)
        scaler.update()
        sync()
        for optimizer in optimizers:
            optimizer.zero_grad()
    assert traffic.reads() == 0
    assert (a.tolist(), b.tolist()) == ([0.0, 0.0], [0.0, 0.0])
    assert scaler.skip_count(optimizers[1]).item() == 1
