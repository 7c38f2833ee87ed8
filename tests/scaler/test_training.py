"""Training under GradScaler against torch.amp.GradScaler: torch's own optimizers, small types, sparse gradients."""

from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.optimizers import clones, parameters, same_bits, set_grads

INF, NAN = float("inf"), float("nan")
SCALE = 1024.0
TORCHS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD fused": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, fused=True),
    "SGD for-loop": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, foreach=False),
    "Adam foreach": lambda params: torch.optim.Adam(params, lr=0.01, foreach=True),
    "AdamW fused": lambda params: torch.optim.AdamW(params, lr=0.01, fused=True),
    "Adagrad": lambda params: torch.optim.Adagrad(params, lr=0.1),
    "RMSprop": lambda params: torch.optim.RMSprop(params, lr=0.01),
}


def started(scaler: Any) -> Any:
    scaler.scale(torch.ones(1))
    return scaler


@pytest.mark.parametrize("unscaled", [False, True])
@pytest.mark.parametrize("name", TORCHS)
def test_torchs_optimizers_step_as_under_torchs_scaler(name: str, unscaled: bool) -> None:
    params = parameters((5,), (2, 3), ())
    others = clones(params)
    ours, theirs = started(polycast.GradScaler(init_scale=SCALE)), started(Scaler("cpu", init_scale=SCALE))
    pairs = [(ours, TORCHS[name](params), params), (theirs, TORCHS[name](others), others)]
    for number, bad in enumerate([None, INF, None, None, NAN, None]):
        for scaler, optimizer, leaves in pairs:
            set_grads(leaves, number, scaler.get_scale())
            if bad is not None:
                leaves[1].grad[0, 1] = bad  # type: ignore[index]
            if unscaled:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        assert all(map(same_bits, params, others)), number
        assert all(param.isfinite().all() for param in params)
        assert ours.state_dict() == theirs.state_dict()
    assert not any(map(same_bits, params, parameters((5,), (2, 3), ())))
    assert ours.get_scale() == SCALE / 4


def test_float16_gradients_are_unscaled_in_registers() -> None:
    """In float16 the scaled gradients are multiples of 2 ** -14, the unscaled ones would be too small to tell apart."""
    weight = torch.zeros(4, dtype=torch.float16, requires_grad=True)
    optimizer = syncfree.SGD([weight], lr=SCALE**2, state_dtype=torch.float32)
    weight.grad = torch.tensor([1, 2, 3, -4], dtype=torch.float16) * 2**-14
    scaler = started(polycast.GradScaler(init_scale=SCALE))
    norm = scaler.clip_grad_norm(optimizer, 1.0)
    scaler.step(optimizer)
    assert norm.item() == pytest.approx(30**0.5 * 2**-14 / SCALE, rel=1e-6)
    assert weight.tolist() == [-(2**-4), -(2**-3), -3 * 2**-4, 2**-2]


@pytest.mark.parametrize("bad", [INF, NAN])
def test_float16_gradients_that_are_not_finite_are_found(bad: float) -> None:
    weight = torch.zeros(4, dtype=torch.float16, requires_grad=True)
    weight.grad = torch.tensor([1, 2, bad, 4], dtype=torch.float16)
    optimizer = syncfree.AdamW([weight], state_dtype=torch.float32)
    scaler = started(polycast.GradScaler())
    scaler.step(optimizer)
    assert scaler.skipped(optimizer).item()
    assert weight.tolist() == [0.0] * 4


@pytest.mark.parametrize("name", ["sync-free", "SGD for-loop", "SGD fused"])
def test_float16_gradients_are_not_unscaled_in_place(name: str) -> None:
    texts = []
    for scaler in (polycast.GradScaler(), Scaler("cpu")):
        weight = torch.zeros(4, dtype=torch.float16, requires_grad=True)
        weight.grad = torch.ones_like(weight)
        ours = name == "sync-free" and isinstance(scaler, polycast.GradScaler)
        optimizer = (
            syncfree.SGD([weight]) if ours else TORCHS["SGD for-loop" if name == "sync-free" else name]([weight])
        )
        with pytest.raises(ValueError) as error:
            started(scaler).unscale_(optimizer)
        texts.append(str(error.value))
        assert weight.grad.tolist() == [1.0] * 4
    assert texts[0].startswith(texts[1])
    assert "That of param_groups[0]['params'][0] is float16: keep the parameters in float32" in texts[0]


def embedding_grad(bad: float | None, coalesced: bool) -> Tensor:
    values = torch.arange(1.0, 13.0).view(4, 3) * SCALE
    if bad is not None:
        values[2, 1] = bad
    grad = torch.sparse_coo_tensor(torch.tensor([[0, 3, 0, 1]]), values, (5, 3), check_invariants=True)
    return grad.coalesce() if coalesced else grad


def train_embedding(library: Any, look: str, coalesced: bool, dense: bool) -> tuple[Tensor, list[Tensor], Any]:
    """Return the weight after two steps and a skipped one, the norms, and how many steps were skipped if known."""
    weight = torch.ones(5, 3, requires_grad=True)
    ours = library is syncfree
    scaler: Any = started((polycast.GradScaler if ours else Scaler)("cpu", init_scale=SCALE))
    optimizer, norms = library.SGD([weight], lr=0.1), []
    for bad in (None, INF, None):
        grad = embedding_grad(bad, coalesced)
        weight.grad = grad.to_dense() if dense else grad
        if look == "unscale_" or (look == "clip_grad_norm" and not ours):
            scaler.unscale_(optimizer)
        if look == "clip_grad_norm":
            norms.append(
                scaler.clip_grad_norm(optimizer, 1.0) if ours else torch.nn.utils.clip_grad_norm_([weight], 1.0)
            )
        scaler.step(optimizer)
        scaler.update(SCALE)
    return weight, norms, scaler.skip_count(optimizer).item() if ours else None


@pytest.mark.parametrize("look", ["step", "unscale_", "clip_grad_norm"])
@pytest.mark.parametrize("coalesced", [False, True])
def test_sparse_gradients(coalesced: bool, look: str) -> None:
    """Torch clips no sparse gradients: there it is given dense ones."""
    weight, norms, skipped = train_embedding(syncfree, look, coalesced, dense=False)
    wanted, reference, _ = train_embedding(torch.optim, look, coalesced, dense=look == "clip_grad_norm")
    torch.testing.assert_close(weight, wanted, rtol=1e-6, atol=1e-6)
    assert skipped == 1
    assert len(norms) == (3 if look == "clip_grad_norm" else 0)
    torch.testing.assert_close(norms[::2], reference[::2])


def train(ours: bool, dtype: torch.dtype, init_scale: float, steps: int = 40) -> tuple[list[float], list[float]]:
    """Train a small network; return the losses and the scales."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
    inputs = torch.randn(64, 8)
    labels = inputs[:, :4].argmax(1)
    scaler: Any
    if ours:
        scaler = polycast.GradScaler(init_scale=init_scale, growth_interval=15)
        optimizer: Any = syncfree.AdamW(net.parameters(), lr=0.01)
    else:
        scaler = Scaler("cpu", init_scale=init_scale, growth_interval=15)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, fused=True)
    losses, scales = [], []
    for _ in range(steps):
        optimizer.zero_grad()
        with polycast.autocast("cpu", dtype):
            loss = nn.functional.cross_entropy(net(inputs), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    return losses, scales


@pytest.mark.parametrize("init_scale", [2.0**10, 2.0**30])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_losses_are_those_of_torchs_scaler_with_fused(dtype: torch.dtype, init_scale: float) -> None:
    (losses, scales), (wanted, their_scales) = (train(ours, dtype, init_scale) for ours in (True, False))
    assert losses == pytest.approx(wanted, rel=0.01 if dtype is torch.float16 else 0.05)
    assert scales == their_scales
    assert losses[-1] < 0.25 * losses[0]
    skipped_first = dtype is torch.float16 and init_scale == 2.0**30
    assert (losses[1] == losses[0]) is skipped_first
