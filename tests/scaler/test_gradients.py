"""Gradients that the random programs have none of: empty, sparse and of float16."""

import pytest
import torch
from polycast import syncfree

from tests.scaler.common import INF, LOOKS, OPTIMIZERS, SCALE, SHAPES, started
from tests.support.optimizers import parameters, set_grads


@pytest.mark.parametrize("norm_type", [2, 0.5, INF])
def test_an_empty_gradient_adds_nothing_to_the_norm(norm_type: float) -> None:
    """Torch's clip_grad_norm_ raises for the norm of an empty gradient if norm_type is infinity."""
    params = parameters(*SHAPES, (2, 0))
    set_grads(params, 0, SCALE)
    grads = [param.grad for param in params[:-1] if param.grad is not None]
    norm = started().clip_grad_norm(OPTIMIZERS["sync-free"](params), 1.0, norm_type)
    torch.testing.assert_close(norm, torch.nn.utils.get_total_norm(grads, norm_type) / SCALE)


@pytest.mark.parametrize(
    ("look", "coalesced"),
    [("step", False), ("unscale_", False), ("clip_grad_norm", False), ("clip_grad_norm", True)],
)
def test_sparse_gradients_train_as_dense_ones(look: str, coalesced: bool) -> None:
    weights = [torch.ones(5, 3, requires_grad=True) for _ in range(2)]
    scalers, optimizers = [started() for _ in weights], [syncfree.SGD([weight], lr=0.1) for weight in weights]
    for bad in (None, INF, None):
        values = torch.arange(1.0, 13.0).view(4, 3) * SCALE
        if bad is not None:
            values[2, 1] = bad
        sparse = torch.sparse_coo_tensor(torch.tensor([[0, 3, 0, 1]]), values, (5, 3), check_invariants=True)
        weights[0].grad = sparse.coalesce() if coalesced else sparse
        weights[1].grad = sparse.to_dense()
        norms = list(map(LOOKS[look], scalers, optimizers))
        if look == "clip_grad_norm":
            torch.testing.assert_close(*norms, equal_nan=True)
        for scaler, optimizer in zip(scalers, optimizers, strict=True):
            scaler.step(optimizer)
            scaler.update(SCALE)
            assert scaler.skipped(optimizer).item() is (bad is not None)
        torch.testing.assert_close(*weights, rtol=1e-6, atol=1e-6)
    assert not torch.equal(weights[0], torch.ones(5, 3))


@pytest.mark.parametrize("bad", [None, INF])
def test_float16_gradients_are_unscaled_in_registers(bad: float | None) -> None:
    """In float16 the scaled gradients are multiples of 2 ** -14, the unscaled ones would be too small to tell apart."""
    scale = 1024.0
    weight = torch.zeros(4, dtype=torch.float16, requires_grad=True)
    optimizer = syncfree.SGD([weight], lr=scale**2, state_dtype=torch.float32)
    weight.grad = torch.tensor([1, 2, 3, -4], dtype=torch.float16) * 2**-14
    if bad is not None:
        weight.grad[2] = bad
    scaler = started(init_scale=scale)
    norm = scaler.clip_grad_norm(optimizer, 1.0)
    scaler.step(optimizer)
    assert scaler.skipped(optimizer).item() is (bad is not None)
    if bad is None:
        assert norm.item() == pytest.approx(30**0.5 * 2**-14 / scale, rel=1e-6)
    assert weight.tolist() == ([-(2**-4), -(2**-3), -3 * 2**-4, 2**-2] if bad is None else [0.0] * 4)
