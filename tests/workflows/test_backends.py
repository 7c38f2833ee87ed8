"""The snippets of the XLA and XPU documents, and the examples of this package."""

from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.support.devices import RESIZES, lower_precision
from tests.support.probe import kernels_of
from tests.support.xla import NEEDS_XLA
from tests.workflows.loops import READS, compare, float32, network, ours, train

# The documents ask torch_xla for its device the way that it calls deprecated.
pytestmark = [RESIZES, pytest.mark.filterwarnings("ignore:Use torch_xla.device instead:DeprecationWarning")]
F32, BF16, HALF = torch.float32, torch.bfloat16, torch.float16
LIBRARIES = pytest.mark.parametrize("library", [syncfree, torch.optim], ids=["sync-free", "torch"])


def trains_on_xla(library: Any, step: Any) -> None:
    """Run the loop of the XLA documents; step is what comes after the forward pass."""
    import torch_xla.core.xla_model as xm

    amp = ours("xla", library)._replace(autocast=lambda: polycast.autocast(xm.xla_device()))
    run = train(amp, network("cpu").to(xm.xla_device()), step=step)
    assert run.dtypes == [BF16] * 8
    compare(run.losses, train(float32()).losses, BF16)


@NEEDS_XLA
@LIBRARIES
@pytest.mark.parametrize("barrier", [False, True])
def test_xla_optimizer_step(library: Any, barrier: bool) -> None:
    import torch_xla.core.xla_model as xm

    def step(_: Any, optimizer: Any, loss: Any) -> None:
        loss.backward()
        xm.optimizer_step(optimizer, barrier=barrier)

    trains_on_xla(library, step)


@NEEDS_XLA
@LIBRARIES
@READS
def test_xla_all_reduce_before_the_step(library: Any) -> None:
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    reduced: list[int] = []

    def step(scaler: Any, optimizer: Any, loss: Any) -> None:
        scaler.scale(loss).backward()
        gradients = xm._fetch_gradients(optimizer)
        xm.all_reduce("sum", gradients, scale=1.0 / xr.world_size())
        reduced.append(len(gradients))
        scaler.step(optimizer)
        scaler.update()

    trains_on_xla(library, step)
    assert reduced == [4] * 8


class SimpleNet(nn.Module):
    """That of the XPU document, smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 16, (3, 3), stride=(2, 2), padding=(1, 1), bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)  # type: ignore[no-any-return]


def simple() -> tuple[SimpleNet, Tensor]:
    torch.manual_seed(0)
    return SimpleNet().eval(), torch.rand(4, 8, 20, 20)


TOLERANCE = {BF16: 0.02, HALF: 0.003}


@pytest.mark.parametrize("dtype", [BF16, HALF])
def test_inference(real_device: str, dtype: torch.dtype) -> None:
    if dtype not in lower_precision(real_device):
        pytest.skip(f"autocast on {real_device} has no {dtype}")
    model, x = simple()
    wanted = model(x)
    assert wanted.dtype is F32
    model, x = model.to(real_device), x.to(real_device)
    with polycast.autocast(real_device, dtype):
        y = model(x)
    assert y.dtype is dtype
    torch.testing.assert_close(y.float().cpu(), wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [BF16, HALF])
def test_inference_on_fake_tensors_of_xpu(dtype: torch.dtype) -> None:
    with kernels_of("xpu"), FakeTensorMode():
        weight, x = torch.empty(16, 8, 3, 3, device="xpu"), torch.empty(4, 8, 20, 20, device="xpu")
        with polycast.autocast("xpu", dtype=dtype):
            assert nn.functional.conv2d(x, weight).dtype is dtype


@pytest.mark.parametrize("form", ["frozen parameters", "no cache", "no cache, no_grad"])
@pytest.mark.parametrize("dtype", [BF16, HALF])
@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_inference_traced(dtype: torch.dtype, form: str) -> None:
    """The document's snippet with what torch needs besides, with its own regions too.

    The cached cast of a weight that requires a gradient is no part of a trace, but a constant: trace refuses one with a
    gradient, and under no_grad its check finds that a second trace differs. So nothing is cached, one way or another.
    """
    model, x = simple()
    wanted = model(x).detach()
    if form == "frozen parameters":
        model.requires_grad_(False)
    cached = form == "frozen parameters"
    with torch.set_grad_enabled("no_grad" not in form), polycast.autocast("cpu", dtype, cache_enabled=cached):
        traced: Any = torch.jit.trace(model, x)  # type: ignore[no-untyped-call]
        traced = torch.jit.freeze(traced)
        y = traced(x)
    again = traced(2 * x)  # the casts are part of it, outside of a region too
    assert y.dtype is again.dtype is dtype
    for found, factor in ((y, 1), (again, 2)):
        torch.testing.assert_close(
            found.float(), factor * wanted, rtol=TOLERANCE[dtype], atol=factor * TOLERANCE[dtype]
        )


@LIBRARIES
def test_xpu_training(real_device: str, library: Any) -> None:
    """The loop without a scaler: bfloat16 needs none."""

    def step(_: Any, optimizer: Any, loss: Any) -> None:
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    compare(train(ours(real_device, library, BF16), step=step).losses, train(float32()).losses, BF16)
