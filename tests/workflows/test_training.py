"""The training loops of the AMP examples, on each device, against the same loop in float32 without scaler.

A loop is the document's, with the device given and the losses kept. tests/workflows/table.py is the table of all.
"""

from itertools import pairwise
from typing import Any

import pytest
import torch
from polycast import syncfree
from torch import Tensor

from tests.support.devices import RESIZES
from tests.workflows.loops import (
    READS,
    Amp,
    compare,
    data,
    float32,
    floats,
    loss_fn,
    lower,
    network,
    ours,
    train,
)

pytestmark = [READS, RESIZES]
OPTIMIZERS = pytest.mark.parametrize("optim", [syncfree, torch.optim], ids=["sync-free", "torch"])


@pytest.fixture
def device(real_device: str, request: pytest.FixtureRequest) -> str:
    """A device, with torch's optimizers in all but the typical loop only where that takes no seconds."""
    if real_device == "xla" and request.getfixturevalue("optim") is torch.optim:
        pytest.skip("torch's optimizers compile for seconds on XLA, so they run there in the typical loop only")
    return real_device


@OPTIMIZERS
def test_typical_training(real_device: str, optim: Any) -> None:
    compare(train(ours(real_device, optim)).losses, train(float32()).losses, lower(real_device))


@OPTIMIZERS
def test_typical_training_finds_its_scale(device: str, optim: Any) -> None:
    """With a first scale too large for float16 it trains as without the skipped steps, whose losses come again."""
    losses, _, scaler, optimizer = train(ours(device, optim), init_scale=2.0**24, same=True, steps=16)
    skips = int(scaler.skip_count(optimizer))
    assert (3 < skips < 10) if lower(device) is torch.float16 else skips == 0
    assert scaler.get_scale() == 2.0 ** (24 - skips)
    real = [loss for loss, after in pairwise(losses) if loss.item() != after.item()]
    assert len(real) + skips in (15, 16)  # it is not seen of the last step whether it was a real one
    compare(real, train(float32(), same=True, steps=len(real)).losses, lower(device))


def inspecting(amp: Amp) -> tuple[list[Tensor], list[Tensor]]:
    model, seen = network(amp.device), []

    def step(scaler: Any, optimizer: Any, loss: Any) -> None:
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        grads = [param.grad for param in model.parameters() if param.grad is not None]
        seen.append(torch.stack([grad.abs().max() for grad in grads]).max())
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()

    return train(amp, model, step=step, lr=0.05, momentum=0.9).losses, seen


@OPTIMIZERS
def test_unscaled_gradients(device: str, optim: Any) -> None:
    (losses, seen), (wanted, reference) = inspecting(ours(device, optim)), inspecting(float32())
    assert min(floats(reference)) > 0.5  # so that there is something to clip
    assert floats(seen) == pytest.approx(floats(reference), rel=0.1)
    compare(losses, wanted, lower(device), fall=0.8)


def clipped(amp: Amp, inside: bool) -> tuple[list[Tensor], list[Tensor]]:
    model, norms, max_norm = network(amp.device), [], 0.7

    def step(scaler: Any, optimizer: Any, loss: Any) -> None:
        scaler.scale(loss).backward()
        if inside:
            norms.append(scaler.clip_grad_norm(optimizer, max_norm))
        else:
            scaler.unscale_(optimizer)
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm))
        scaler.step(optimizer)
        scaler.update()

    return train(amp, model, step=step, lr=0.2, momentum=0.8).losses, norms


@pytest.mark.parametrize("inside", [False, True], ids=["document", "in the step"])
@OPTIMIZERS
def test_clipping(device: str, optim: Any, inside: bool) -> None:
    (losses, norms), (wanted, reference) = clipped(ours(device, optim), inside), clipped(float32(), inside=False)
    assert min(floats(reference)) > 0.7  # so that there is something to clip
    assert floats(norms) == pytest.approx(floats(reference), rel=0.06)
    compare(losses, wanted, lower(device), fall=0.8)


def accumulated(amp: Amp, iters_to_accumulate: int, max_norm: float | None = None) -> list[Tensor]:
    model = network(amp.device)
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
            if max_norm is not None and isinstance(optimizer, syncfree.SGD):
                scaler.clip_grad_norm(optimizer, max_norm)
            elif max_norm is not None:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


@pytest.mark.parametrize("max_norm", [None, 1.5])
@OPTIMIZERS
def test_accumulation(device: str, optim: Any, max_norm: float | None) -> None:
    compare(accumulated(ours(device, optim), 3, max_norm), accumulated(float32(), 3, max_norm), lower(device), fall=0.8)


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


def test_penalty(real_device: str) -> None:
    compare(penalized(ours(real_device)), penalized(float32()), lower(real_device), fall=0.85)


def several(amp: Amp, together: bool) -> list[Tensor]:
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
        if together:
            scaler.step_together(optimizer0, optimizer1)
        else:
            scaler.step(optimizer0)
            scaler.step(optimizer1)
        scaler.update()
        losses.append((loss0 + loss1).detach())
    return losses


@pytest.mark.parametrize("together", [False, True])
@OPTIMIZERS
def test_several_models_losses_and_optimizers(device: str, optim: Any, together: bool) -> None:
    compare(several(ours(device, optim), together), several(float32(), together=False), lower(device), fall=0.8)
