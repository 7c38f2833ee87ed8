"""The training loops and functions of the AMP, XLA and XPU documents, against the same in float32 without scaler."""

from itertools import pairwise
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor

from tests.support.devices import RESIZES
from tests.support.xla import NEEDS_XLA
from tests.workflows.loops import LOOPS, float32, floats, lower, network, ours, train

F32, BF16 = torch.float32, torch.bfloat16
TOLERANCE = {torch.float16: 0.01, BF16: 0.05}
# The documents ask torch_xla for its device the way that it calls deprecated.
pytestmark = [
    RESIZES,
    pytest.mark.filterwarnings(
        "ignore:each step of .* waits until the device:UserWarning",
        "ignore:Use torch_xla.device instead:DeprecationWarning",
    ),
]
OPTIMIZERS = pytest.mark.parametrize("optim", [syncfree, torch.optim], ids=["sync-free", "torch"])


def compare(found: list[Tensor], wanted: list[Tensor], dtype: torch.dtype, fall: float = 0.5) -> None:
    """The losses fall as they do in float32, to a share of the first at least."""
    losses, reference = floats(found), floats(wanted)
    assert losses == pytest.approx(reference, rel=TOLERANCE[dtype], abs=TOLERANCE[dtype] * reference[0] / 4)
    assert losses[-1] < fall * losses[0]


@OPTIMIZERS
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_the_documents(real_device: str, optim: Any, name: str) -> None:
    if real_device == "xla" and optim is torch.optim and name != "typical":
        pytest.skip("torch's optimizers compile for seconds on XLA, so they run there in the typical loop only")
    (loop, fall), dtype = LOOPS[name], BF16 if name == "without a scaler" else lower(real_device)
    compare(loop(ours(real_device, optim, dtype)), loop(float32()), dtype, fall)


def test_a_training_finds_its_scale(real_device: str) -> None:
    """With a first scale too large for float16 it trains as without the skipped steps, whose losses come again."""
    losses, _, scaler, optimizer = train(ours(real_device), init_scale=2.0**24, same=True, steps=16)
    skips = int(scaler.skip_count(optimizer))
    assert (3 < skips < 10) if lower(real_device) is torch.float16 else skips == 0
    assert scaler.get_scale() == 2.0 ** (24 - skips)
    real = [loss for loss, after in pairwise(losses) if loss.item() != after.item()]
    assert len(real) + skips in (15, 16)  # it is not seen of the last step whether it was a real one
    compare(real, train(float32(), same=True, steps=len(real)).losses, lower(real_device))


def optimizer_step(_: Any, optimizer: Any, loss: Any) -> None:
    import torch_xla.core.xla_model as xm

    loss.backward()
    xm.optimizer_step(optimizer)


def all_reduced_step(scaler: Any, optimizer: Any, loss: Any) -> None:
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    scaler.scale(loss).backward()
    gradients = xm._fetch_gradients(optimizer)
    assert len(gradients) == 4
    xm.all_reduce("sum", gradients, scale=1.0 / xr.world_size())
    scaler.step(optimizer)
    scaler.update()


@NEEDS_XLA
@OPTIMIZERS
@pytest.mark.parametrize("step", [optimizer_step, all_reduced_step])
def test_a_step_of_the_xla_document(optim: Any, step: Any) -> None:
    import torch_xla.core.xla_model as xm

    amp = ours("xla", optim)._replace(autocast=lambda: polycast.autocast(xm.xla_device()))
    run = train(amp, network("cpu").to(xm.xla_device()), step=step)
    assert run.dtype is BF16
    compare(run.losses, train(float32()).losses, BF16)


class MyMM(torch.autograd.Function):
    @staticmethod
    @polycast.custom_fwd
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a.mm(b)

    @staticmethod
    @polycast.custom_bwd
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        return grad.mm(b.t()), a.t().mm(grad)


class MyFloat32Func(torch.autograd.Function):
    @staticmethod
    @polycast.custom_fwd(cast_inputs=F32)
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        result = x.mm(x.t()).diagonal()[:, None] * x
        assert (x.dtype, result.dtype) == (F32, F32)
        return result

    @staticmethod
    @polycast.custom_bwd
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        assert (x @ x.t()).dtype is F32
        result: Tensor = grad * (x * x).sum(1, keepdim=True) + 2 * x * (grad * x).sum(1, keepdim=True)
        return result


def test_custom_functions_of_the_documents(real_device: str) -> None:
    """One in the region's dtype, and one between its layers that needs float32."""

    def weights(device: str) -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        shapes = ((8, 16), (16, 2))
        return [(torch.randn(shape, generator=generator) / 4).to(device).requires_grad_() for shape in shapes]

    def plain(x: Tensor) -> Tensor:
        return x.mm(x.t()).diagonal()[:, None] * x

    def losses(amp: Any, mm: Any, func: Any) -> tuple[list[Tensor], torch.dtype]:
        first, last = weights(amp.device)
        run = train(amp, lambda x: mm(func(mm(x, first) / 4), last), [first, last], same=True)
        return run.losses, run.dtype

    found, dtype = losses(ours(real_device), MyMM.apply, MyFloat32Func.apply)
    assert dtype is lower(real_device)
    compare(found, losses(float32(), torch.mm, plain)[0], dtype, fall=0.8)
