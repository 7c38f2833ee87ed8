"""Sparse gradients: torch.optim takes the step, after one read; a skipped step changes nothing."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.optimizers import OURS, THEIRS, parameters, same_bits, step

OPTIONS: list[tuple[int, dict[str, Any]]] = [  # the sparse dimensions, and options
    (1, {}),
    (2, {"momentum": 0.9, "maximize": True}),
    (1, {"momentum": 0.9, "nesterov": True}),
    (1, {"momentum": 0.9, "dampening": 0.4}),
]


def sparse(dims: int, seed: int) -> Tensor:
    """Return a gradient with duplicates, and without most places."""
    generator, shape = torch.Generator().manual_seed(seed), (50, 4, 3)
    indices = torch.stack([torch.randint(size, (6,), generator=generator) for size in shape[:dims]])
    indices[:, 1] = indices[:, 0]
    values = torch.randn(6, *shape[dims:], generator=generator)
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)


@pytest.mark.parametrize(("dims", "options"), OPTIONS, ids=str)
def test_steps_skips_and_state_are_torchs(options: dict[str, Any], dims: int) -> None:
    (ours,), (theirs,) = parameters((50, 4, 3)), parameters((50, 4, 3))
    optimizer, peer = OURS["SGD"]([ours], lr=0.1, **options), THEIRS["SGD"]([theirs], lr=0.1, **options)
    for number, skip in enumerate([True, False, False, True, False, False]):
        theirs.grad = sparse(dims, number)
        ours.grad = given = theirs.grad * 1024
        before, version, state, scaled = ours.detach().clone(), ours._version, str(optimizer.state), given.to_dense()
        step(optimizer, found_inf=float(skip), grad_scale=2048.0, clip_coef=2.0)
        assert ours.grad is given
        assert same_bits(given.to_dense(), scaled)
        if skip:
            assert same_bits(before, ours)
            assert (ours._version, str(optimizer.state)) == (version, state)
            continue
        peer.step()
        torch.testing.assert_close(ours, theirs)
        if "momentum" in options:
            buffers = [side.state[param]["momentum_buffer"] for side, param in ((optimizer, ours), (peer, theirs))]
            assert all(buffer.is_sparse for buffer in buffers)
            torch.testing.assert_close(*(buffer.to_dense() for buffer in buffers))
        if number == 2:  # each goes on with the other's
            states = [side.state_dict() for side in (peer, optimizer)]
            optimizer.load_state_dict(states[0])
            peer.load_state_dict(states[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_sparse_momentum_buffer_decays_as_torchs(dtype: torch.dtype) -> None:
    """A buffer whose dtype is not the one of the arithmetic is a new tensor after each step."""
    found = []
    for library in (OURS, THEIRS):
        param = torch.zeros(3, dtype=dtype, requires_grad=True)
        optimizer = library["SGD"]([param], lr=1.0, momentum=0.5)
        for grad in ([1.0, 0.0, 2.0], [0.0, 0.0, 0.0]):
            param.grad = torch.tensor(grad, dtype=dtype).to_sparse()
            optimizer.step()
        found.append((optimizer.state[param]["momentum_buffer"].to_dense(), param.detach()))
    torch.testing.assert_close(*found, rtol=0, atol=0)
