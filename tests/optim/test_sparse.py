"""Sparse gradients: torch.optim takes the step, after one read; a skipped step changes nothing."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.optimizers import OURS, THEIRS, parameters, same_bits, step

OPTIONS = [
    {"momentum": momentum, "nesterov": nesterov, "dampening": dampening, "maximize": maximize}
    for momentum, nesterov, dampening, maximize in product([0, 0.9], [False, True], [0, 0.4], [False, True])
    if not nesterov or (momentum and not dampening)
]


def sparse(shape: tuple[int, ...], dims: int, seed: int) -> Tensor:
    """Return a gradient with duplicates, and without most places."""
    generator = torch.Generator().manual_seed(seed)
    indices = torch.stack([torch.randint(size, (6,), generator=generator) for size in shape[:dims]])
    indices[:, 1] = indices[:, 0]
    values = torch.randn(6, *shape[dims:], generator=generator)
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_skips_and_state_are_torchs(options: dict[str, Any], dims: int) -> None:
    (ours,), (theirs,) = parameters((50, 4, 3)), parameters((50, 4, 3))
    optimizer, peer = OURS["SGD"]([ours], lr=0.1, **options), THEIRS["SGD"]([theirs], lr=0.1, **options)
    for number, skip in enumerate([True, False, False, True, False, False]):
        ours.grad = sparse((50, 4, 3), dims, number)
        theirs.grad = ours.grad.clone()
        before, version, state = ours.detach().clone(), ours._version, str(optimizer.state)
        step(optimizer, found_inf=float(skip))
        if skip:
            assert same_bits(before, ours)
            assert (ours._version, str(optimizer.state)) == (version, state)
            continue
        peer.step()
        torch.testing.assert_close(ours, theirs)
        if options["momentum"]:
            buffers = [side.state[param]["momentum_buffer"] for side, param in ((optimizer, ours), (peer, theirs))]
            assert all(buffer.is_sparse for buffer in buffers)
            torch.testing.assert_close(*(buffer.to_dense() for buffer in buffers))
        if number == 2:  # each goes on with the other's
            states = [side.state_dict() for side in (peer, optimizer)]
            optimizer.load_state_dict(states[0])
            peer.load_state_dict(states[1])


def test_scaled_gradients_keep_their_values() -> None:
    (ours,), (theirs,) = parameters((50, 4)), parameters((50, 4))
    optimizer, peer = OURS["SGD"]([ours], lr=0.1, momentum=0.9), THEIRS["SGD"]([theirs], lr=0.1, momentum=0.9)
    for number in range(3):
        theirs.grad = sparse((50, 4), 1, number)
        ours.grad = given = theirs.grad * 1024
        before = given.to_dense()
        step(optimizer, grad_scale=2048.0, clip_coef=2.0)
        peer.step()
        torch.testing.assert_close(ours, theirs)
        assert ours.grad is given
        assert same_bits(given.to_dense(), before)
