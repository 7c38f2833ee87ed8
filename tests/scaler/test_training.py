"""Training with a gradient scaler on every device: iterations do not sync, and skipped steps change no bit."""

from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from polycast.devices import facts_of
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as TorchGradScaler
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.scaler.common import INF, LOOKS, SCALE, started
from tests.support.devices import no_syncs_of_steps, synchronize
from tests.support.optimizers import on_host, same_bits, tensors


class Training:
    """A model with two optimizers, one of them with a schedule."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        self.device, self.inputs = device, torch.randn(16, 4).to(device)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
        self.optimizers: list[Any] = [
            syncfree.AdamW(self.model[0].parameters(), lr=0.01),
            syncfree.SGD(self.model[2].parameters(), lr=0.1, momentum=0.9),
        ]
        self.scaler = polycast.GradScaler(init_scale=1024.0, growth_interval=5)
        self.schedule = polycast.SkipAwareLR(self.optimizers[0], lambda steps: 0.99**steps, self.scaler)

    def step(self, factor: Tensor) -> None:
        """Run forward, backward, ``clip_grad_norm``, step and update. The factor multiplies the loss."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        with polycast.autocast(self.device):
            output = self.model(self.inputs)
        self.scaler.scale(output.float().square().mean() * factor).backward()
        for optimizer in self.optimizers:
            self.scaler.clip_grad_norm(optimizer, max_norm=0.1)
            self.scaler.step(optimizer)
        self.scaler.update()
        self.schedule.step()

    def tensors(self) -> list[Tensor]:
        return [tensor for optimizer in self.optimizers for tensor in tensors(optimizer)]

    def numbers(self) -> list[float]:
        skips = [self.scaler.skip_count(optimizer).item() for optimizer in self.optimizers]
        return [*skips, self.scaler.get_scale(), *self.schedule.get_last_lr()]


class Recording(TorchDispatchMode):
    """The ops of a block. A replay runs them on the tensors of the block, like the replay of a CUDA graph."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = list[tuple[Any, ...]]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append((func, args, kwargs or {}, result := func(*args, **(kwargs or {}))))
        return result

    @torch.no_grad()
    def replay(self) -> None:
        for func, args, kwargs, result in self.calls:
            for old, new in zip(tree_leaves(result), tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, Tensor):
                    old.copy_(new)


def test_thirty_iterations_do_not_sync(real_device: str) -> None:
    run, factors = Training(real_device), [torch.tensor([factor]).to(real_device) for factor in (1.0, INF)]
    with no_syncs_of_steps(real_device):
        for number in range(30):
            run.step(factors[number % 10 == 4])
            synchronize(real_device)
    assert [run.scaler.skip_count(optimizer).item() for optimizer in run.optimizers] == [3, 3]
    assert run.schedule.get_last_lr() == pytest.approx([0.01 * 0.99**27])
    assert all(tensor.isfinite().all().item() for tensor in run.tensors())


def test_a_captured_iteration_equals_an_eager_one(real_device: str) -> None:
    module: Any = torch.get_device_module("cpu" if real_device == "xla" else real_device)
    if real_device != "cpu" and not hasattr(module, f"{real_device.upper()}Graph"):
        pytest.skip(f"{real_device} has no graphs that can be captured")
    graph: Any = Recording() if real_device == "cpu" else getattr(module, f"{real_device.upper()}Graph")()
    factor, eager, captured = torch.ones(1, device=real_device), Training(real_device), Training(real_device)
    stream = module.Stream()  # The iterations that create state must not be captured.
    stream.wait_stream(module.current_stream())
    with module.stream(stream):
        for run in (eager, captured) * 3:
            run.step(factor)
    module.current_stream().wait_stream(stream)
    with graph if real_device == "cpu" else module.graph(graph):
        captured.step(factor)
    if real_device == "cpu":
        eager.step(factor)  # Unlike a capture, the recording has run the iteration.
    for value in (1.0, INF, 1.0, 1.0):
        factor.fill_(value)
        before = [tensor.clone() for tensor in captured.tensors()]
        graph.replay()
        eager.step(factor)
        assert value == 1.0 or all(map(same_bits, before, captured.tensors()))
        torch.testing.assert_close(captured.tensors(), eager.tensors(), rtol=1e-3, atol=1e-5)
        assert captured.numbers() == pytest.approx(eager.numbers())


def scaled_steps(look: str, device: str = "cpu", optim: Any = syncfree) -> list[Any]:
    """Return the norms, and a complex parameter after each of three steps. The second gradient is non-finite."""
    weight = torch.ones(2, device=device, dtype=torch.complex64)
    optimizer, scaler = optim.SGD([weight], lr=0.5, momentum=0.9), polycast.GradScaler(init_scale=4.0)
    seen: list[Any] = []
    for factor in (1, INF, 1):
        weight.grad = (4 * factor * torch.tensor([3.0, -4.0j])).to(device)
        scaler.scale(torch.ones(1, device=device))
        norm = LOOKS[look](scaler, optimizer)
        scaler.step(optimizer)
        scaler.update()
        seen += [weight.clone()] if norm is None else [norm.clone(), weight.clone()]
    return on_host(seen)


@pytest.mark.parametrize("look", ["unscale_", "clip_grad_norm"])
def test_complex_parameters_and_inference_mode(look: str, real_device: str) -> None:
    """A complex parameter trains as with ``torch.optim``, in inference mode or outside of it."""
    wanted = scaled_steps(look, optim=torch.optim)
    with torch.inference_mode():
        torch.testing.assert_close(scaled_steps(look, real_device), wanted, equal_nan=True)
    for optim in (syncfree, torch.optim):
        torch.testing.assert_close(scaled_steps(look, real_device, optim), wanted, equal_nan=True)


@pytest.mark.parametrize(
    ("look", "coalesced"),
    [("step", False), ("unscale_", False), ("clip_grad_norm", False), ("clip_grad_norm", True)],
)
def test_sparse_gradients_train_like_dense_ones(look: str, coalesced: bool) -> None:
    trained = []
    for is_sparse in (True, False):
        weight, scaler = torch.ones(5, 3, requires_grad=True), started()
        optimizer = syncfree.SGD([weight], lr=0.1)
        for bad in (1, INF, 1):
            values = torch.arange(1.0, 13.0).view(4, 3) * SCALE * torch.tensor([1, bad, 1])
            grad = torch.sparse_coo_tensor(torch.tensor([[0, 3, 0, 1]]), values, (5, 3), check_invariants=True)
            weight.grad = (grad.coalesce() if coalesced else grad) if is_sparse else grad.to_dense()
            norm = LOOKS[look](scaler, optimizer)
            scaler.step(optimizer)
            scaler.update(SCALE)
            assert scaler.step_was_skipped(optimizer).item() is (bad == INF)
            trained.append([weight.clone(), torch.tensor(0.0) if norm is None else norm])
    torch.testing.assert_close(trained[:3], trained[3:], rtol=1e-6, atol=1e-6, equal_nan=True)
    assert not trained[-1][0].equal(torch.ones(5, 3))


def test_duplicates_in_sparse_gradients_are_checked_one_by_one_as_in_pytorch() -> None:
    seen = []
    for kind in (TorchGradScaler, polycast.GradScaler):
        weight, scaler = torch.zeros(1, 1, requires_grad=True), started(kind("cpu", init_scale=1.0))
        weight.grad = torch.sparse_coo_tensor(
            torch.zeros(1, 2), torch.full((2, 1), 3e38), (1, 1), check_invariants=True
        )
        scaler.step(torch.optim.SGD([weight], lr=1e-3))
        scaler.update()
        seen.append((weight.item(), scaler.get_scale()))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("max_norm", [16.0, INF])
def test_gradients_whose_scaled_norm_overflows_are_clipped(max_norm: float, real_device: str) -> None:
    if not facts_of(real_device).has_float64:
        pytest.skip(f"norms of {real_device} are computed in float32, which overflows")
    weight = torch.zeros(1024, device=real_device, requires_grad=True)
    optimizer, scaler = syncfree.SGD([weight], lr=1.0), polycast.GradScaler(init_scale=2.0**126)
    weight.grad = scaler.scale(torch.ones_like(weight))
    assert scaler.clip_grad_norm(optimizer, max_norm).item() == 32.0
    scaler.step(optimizer)
    torch.testing.assert_close(weight.detach().cpu(), torch.full((1024,), -min(1.0, max_norm / 32)))


def test_float16_gradients_are_unscaled_in_registers() -> None:
    """The unscaled gradients are multiples of 2 ** -24, the smallest positive float16 number."""
    weight = torch.zeros(4, dtype=torch.float16, requires_grad=True)
    optimizer = syncfree.SGD([weight], lr=2.0**20, state_dtype=torch.float32)
    weight.grad = torch.tensor([1, 2, 3, -4], dtype=torch.float16) * 2**-14
    scaler = started(init_scale=1024.0)
    norm = scaler.clip_grad_norm(optimizer, 1.0)
    scaler.step(optimizer)
    assert norm.item() == pytest.approx(30**0.5 * 2**-24, rel=1e-6)
    assert weight.tolist() == [-(2**-4), -(2**-3), -3 * 2**-4, 2**-2]
