"""The training loops of three documents on autocast, compared with float32 training without a scaler.

The documents are "Automatic Mixed Precision examples" by PyTorch, "AMP (Automatic Mixed Precision) with Pytorch/XLA",
and "Auto Mixed Precision (AMP) on GPU" by Intel.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any, NamedTuple

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.support.devices import NEEDS_XLA, RESIZES, for_scaling, synchronize

BF16 = torch.bfloat16
TOLERANCE = {torch.float16: 0.01, BF16: 0.05}
# `torch_xla` deprecates the function with which the documents get the device.
pytestmark = [
    RESIZES,
    pytest.mark.filterwarnings("ignore:Use torch_xla.device instead:DeprecationWarning"),
]
OPTIMIZERS = pytest.mark.parametrize("optim", [syncfree, torch.optim], ids=["sync-free", "torch"])
loss_fn = nn.MSELoss()


def data(device: str, steps: int = 8, same: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of a linear problem. Sync the device after each batch, because ``torch_xla``'s loaders do so."""
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
    """The classes that a loop uses: polycast's on a device, or PyTorch's in float32 on the CPU as the reference."""

    device: str
    optim: Any
    autocast: Callable[[], AbstractContextManager[Any]]
    GradScaler: Callable[..., Any]


def ours(device: str, optim: Any = syncfree, dtype: torch.dtype | None = None) -> Amp:
    def scaler(init_scale: float = 256.0) -> polycast.GradScaler:
        return polycast.GradScaler(init_scale=init_scale)

    return Amp(device, optim, lambda: polycast.autocast(device, dtype or for_scaling(device)), scaler)


def float32() -> Amp:
    def scaler(_: float = 1.0) -> Scaler:
        return Scaler("cpu", enabled=False)

    return Amp("cpu", torch.optim, lambda: torch.autocast("cpu", enabled=False), scaler)


class Run(NamedTuple):
    """A training run: its classes and objects, and the losses until now."""

    amp: Amp
    model: Any
    optimizer: Any
    scaler: Any
    losses: list[Tensor]


def scaled_step(run: Run, loss: Tensor) -> Tensor:
    run.scaler.scale(loss).backward()
    run.scaler.step(run.optimizer)
    run.scaler.update()
    return loss


def plain_step(run: Run, loss: Tensor) -> Tensor:
    """Step as in "Auto Mixed Precision (AMP) on GPU", without a scaler, because bfloat16 needs none."""
    loss.backward()  # type: ignore[no-untyped-call]
    run.optimizer.step()
    return loss


def penalized_step(run: Run, loss: Tensor) -> Tensor:
    scaled_grad_params = torch.autograd.grad(
        outputs=run.scaler.scale(loss), inputs=list(run.model.parameters()), create_graph=True
    )
    inv_scale = 1.0 / run.scaler.get_scale()
    grad_params = [p * inv_scale for p in scaled_grad_params]
    with run.amp.autocast():
        grad_norm: Any = 0
        for grad in grad_params:
            grad_norm += grad.pow(2).sum()
        grad_norm = grad_norm.sqrt()
        loss = loss + grad_norm
    return scaled_step(run, loss)


Step = Callable[[Run, Tensor], Tensor]


def train(
    amp: Amp,
    step: Step = scaled_step,
    model: Any = None,
    lr: float = 0.1,
    init_scale: float = 256.0,
    same: bool = False,
    steps: int = 8,
    dtype: torch.dtype | None = None,
) -> Run:
    """Train with the typical loop of the documents, with ``step`` after the forward. Outputs must have ``dtype``."""
    model = model or network(amp.device)
    run = Run(amp, model, amp.optim.SGD(model.parameters(), lr=lr), amp.GradScaler(init_scale), [])
    for inputs, targets in data(amp.device, steps, same):
        run.optimizer.zero_grad()
        with amp.autocast():
            output = model(inputs)
            loss = loss_fn(output, targets)
        assert output.dtype is (dtype or output.dtype)
        run.losses.append(step(run, loss).detach())
    return run


# Each loop has a step, options, and a limit of the last loss as a fraction of the first loss.
LOOPS: dict[str, tuple[Step, dict[str, Any], float]] = {
    "typical": (scaled_step, {}, 0.5),
    "without_scaler": (plain_step, {}, 0.5),
    "penalized": (penalized_step, {"lr": 0.03, "same": True}, 0.85),
}


def compare(found: list[Tensor], wanted: list[Tensor], dtype: torch.dtype, fall: float = 0.5) -> None:
    """Assert that the losses fall as in float32, to below a fraction of the first loss."""
    losses, reference = torch.stack(found).tolist(), torch.stack(wanted).tolist()
    assert losses == pytest.approx(reference, rel=TOLERANCE[dtype], abs=TOLERANCE[dtype] * reference[0] / 4)
    assert losses[-1] < fall * losses[0]


@OPTIMIZERS
@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_of_the_documents_trains_like_float32(real_device: str, optim: Any, loop: str) -> None:
    if real_device == "xla" and optim is torch.optim and loop != "typical":
        pytest.skip("XLA compiles PyTorch's optimizers for seconds, so only the typical loop runs them there")
    step, options, fall = LOOPS[loop]
    dtype = BF16 if loop == "without_scaler" else for_scaling(real_device)
    run, reference = train(ours(real_device, optim, dtype), step, **options), train(float32(), step, **options)
    compare(run.losses, reference.losses, dtype, fall)


def test_a_training_run_finds_its_scale(real_device: str) -> None:
    """A run whose first scale is too large trains like a float32 run, except for skipped steps, whose losses repeat."""
    *_, optimizer, scaler, losses = train(ours(real_device), init_scale=2.0**24, same=True, steps=16)
    skips = int(scaler.skip_count(optimizer))
    assert (3 < skips < 10) if for_scaling(real_device) is torch.float16 else skips == 0
    assert scaler.get_scale() == 2.0 ** (24 - skips)
    real = [loss for loss, after in pairwise(losses) if loss.item() != after.item()]
    assert len(real) + skips in (15, 16)  # The last loss has no successor that shows a skip.
    compare(real, train(float32(), same=True, steps=len(real)).losses, for_scaling(real_device))


def all_reduced_step(run: Run, loss: Tensor) -> Tensor:
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    run.scaler.scale(loss).backward()
    gradients = xm._fetch_gradients(run.optimizer)
    assert len(gradients) == 4
    xm.all_reduce("sum", gradients, scale=1.0 / xr.world_size())
    run.scaler.step(run.optimizer)
    run.scaler.update()
    return loss


@NEEDS_XLA
@OPTIMIZERS
def test_a_step_with_all_reduced_gradients_as_in_the_xla_document(optim: Any) -> None:
    import torch_xla.core.xla_model as xm

    amp = ours("xla", optim)._replace(autocast=lambda: polycast.autocast(xm.xla_device()))
    run = train(amp, all_reduced_step, network("cpu").to(xm.xla_device()), dtype=BF16)
    compare(run.losses, train(float32()).losses, BF16)
