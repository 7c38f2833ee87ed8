"""Sparse gradients, as torch.optim has them."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.optimizers import KINDS, OURS, PATHS, THEIRS, make, parameters, same_bits, step, tensors

SGD = [kind for kind in KINDS if kind.startswith("SGD") and kind != "SGD nesterov"]
SHAPE = (6, 3)


def sparse(seed: int, factor: float = 1.0) -> Tensor:
    """Return a gradient whose rows 4 and 1 are given, the latter twice."""
    values = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed)) * factor
    return torch.sparse_coo_tensor(torch.tensor([[4, 1, 1]]), values, SHAPE, check_invariants=True)


def trained(library: dict[str, Any], kind: str) -> list[Tensor]:
    """Take steps with sparse gradients, and beside them a parameter with dense ones."""
    params = parameters(SHAPE, (4,))
    optimizer: Any = make(library, kind, params)
    for number in range(4):
        params[0].grad = sparse(number)
        params[1].grad = torch.ones(4) * number
        optimizer.step()
    return params


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", SGD)
def test_steps(kind: str, path: str) -> None:
    with PATHS[path]():
        found = trained(OURS, kind)
    torch.testing.assert_close(found, trained(THEIRS, kind), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", SGD)
def test_skipped_steps(kind: str, path: str) -> None:
    params = parameters(SHAPE, (4,))
    optimizer: Any = make(OURS, kind, params)
    with PATHS[path]():
        for number, found_inf in enumerate((1.0, 0.0, 1.0)):
            params[0].grad, params[1].grad = sparse(number), torch.ones(4)
            before = [tensor.detach().clone() for tensor in tensors(optimizer)]
            versions = [tensor._version for tensor in params]
            step(optimizer, found_inf=found_inf, grad_scale=2.0)
            after = tensors(optimizer)
            if found_inf and before[2:]:
                assert all(same_bits(left, right) for left, right in zip(before, after, strict=True))
            assert same_bits(params[0], before[0]) == bool(found_inf)
            assert all(tensor._version > version for tensor, version in zip(params, versions, strict=True))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", SGD)
def test_a_gradient_that_is_sparse_and_then_dense(kind: str, path: str) -> None:
    def weights(library: dict[str, Any]) -> Tensor:
        (param,) = parameters(SHAPE)
        optimizer: Any = make(library, kind, [param])
        for number in range(4):
            param.grad = sparse(number).to_dense() if number % 2 else sparse(number)
            optimizer.step()
        return param

    with PATHS[path]():
        found = weights(OURS)
    torch.testing.assert_close(found, weights({**THEIRS}) if kind == "SGD" else dense(kind), rtol=2e-6, atol=2e-6)


def dense(kind: str) -> Tensor:
    """Return what dense gradients give: a sparse momentum of torch's takes no dense gradient."""
    (param,) = parameters(SHAPE)
    optimizer: Any = make(THEIRS, kind, [param])
    for number in range(4):
        param.grad = sparse(number).to_dense()
        optimizer.step()
    return param


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("Adam")])
def test_adam_takes_none(kind: str) -> None:
    params = parameters(SHAPE, (4,))
    before = [param.detach().clone() for param in params]
    optimizer: Any = make(OURS, kind, params)
    params[0].grad, params[1].grad = sparse(0), torch.ones(4)
    text = f"^{KINDS[kind][0]} does not support sparse gradients, please consider SparseAdam instead$"
    with pytest.raises(RuntimeError, match=text):
        optimizer.step()
    assert all(same_bits(left, right) for left, right in zip(params, before, strict=True))


def test_sgd_takes_none_with_weight_decay() -> None:
    params = parameters(SHAPE, (4,))
    before = [param.detach().clone() for param in params]
    optimizer: Any = make(OURS, "SGD nesterov", params)
    params[0].grad, params[1].grad = sparse(0), torch.ones(4)
    with pytest.raises(
        RuntimeError, match=r"weight_decay is 0.01 and the gradient of a parameter of \(6, 3\) is sparse"
    ):
        optimizer.step()
    assert all(same_bits(left, right) for left, right in zip(params, before, strict=True))


def test_a_state_that_does_not_fit_is_refused_before_anything_is_written() -> None:
    params = parameters(SHAPE, SHAPE)
    optimizer: Any = make(OURS, "SGD momentum", params)
    for param in params:
        param.grad = sparse(0)
    optimizer.step()
    optimizer.state[params[1]]["momentum_buffer"] = torch.zeros(4)
    before = [tensor.detach().clone() for tensor in tensors(optimizer)]
    text = r"^the momentum_buffer of a parameter of \(6, 3\) on cpu is of \(4,\) on cpu; load the state that belongs"
    with pytest.raises(ValueError, match=text):
        optimizer.step()
    assert all(map(same_bits, tensors(optimizer), before))
