"""Parameters that share memory, and sparse gradients with momentum. The random programs test other layouts."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.optimizers import OURS, THEIRS, make, parameters, same_bits, set_grads, step

F32, BF16 = torch.float32, torch.bfloat16
SHARING: dict[str, Callable[[Tensor], list[Tensor]]] = {
    "the same memory": lambda memory: [memory.view(-1), memory.view(-1)],
    "one element in common": lambda memory: [memory.view(-1)[:20], memory.view(-1)[19:30]],
    "strided, in common": lambda memory: [memory.view(-1)[::2], memory.view(-1)[::3]],
    "the third with the first": lambda memory: [memory[:4], memory[4:6], memory[3:4]],
    "strided, apart": lambda memory: [memory[:4, :3], memory[:2, 3:], memory[2:4, 3::2], memory[2:4, 4::2]],
}


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("case", SHARING)
@pytest.mark.parametrize(
    ("kind", "dtype", "ours"),
    [("SGD nesterov", BF16, {}), ("AdamW", F32, {}), ("SGD momentum", BF16, {"state_dtype": F32})],
    ids=str,
)
def test_parameters_in_one_storage_step_one_after_the_other(
    kind: str, dtype: torch.dtype, ours: dict[str, Any], case: str, real_device: str
) -> None:
    """The result equals ``torch.optim``'s, even if parameters share elements. Memory between them does not change."""
    tolerance = 3e-6 if dtype is F32 else 3e-2

    def weights(library: dict[str, Any], device: str) -> Tensor:
        memory = numbers(100, 10).to(device, dtype)
        params = [view.detach().requires_grad_() for view in SHARING[case](memory)]
        optimizer = make(library, kind, params, **(ours if library is OURS else {}))
        for _ in range(3):
            set_grads(params, 1)
            optimizer.step()
        return memory.cpu()

    found, wanted = weights(OURS, real_device), weights(THEIRS, "cpu")
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["SGD", "SGD momentum", "AdamW"])
@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate parameters")
def test_a_parameter_that_is_in_a_group_twice(kind: str, real_device: str) -> None:
    """Such a parameter steps twice with one gradient, as in ``torch.optim``'s for-loop."""
    weights = []
    for library, device in ((OURS, real_device), (THEIRS, "cpu")):
        first, second = parameters((3,), (2, 2), device=device)
        optimizer = make(library, kind, [first, second, first], foreach=False)
        for number in range(3):
            set_grads([first, second], number)
            optimizer.step()
        weights.append([first.detach().cpu(), second.detach().cpu()])
    torch.testing.assert_close(*weights)


def test_views_without_memory_do_not_overlap() -> None:
    """A step of overlapping parameters would read ``found_inf``, which has no value on the device ``meta``."""
    memories = [torch.empty(8, device="meta") for _ in range(2)]
    params = [view.detach().requires_grad_() for memory in memories for view in memory.chunk(2)]
    set_grads(params, 1)
    OURS["SGD"](params, lr=0.1).step(found_inf=torch.zeros((), device="meta"))


def sparse(dims: int, seed: int) -> Tensor:
    """Return a sparse gradient of few elements, with duplicate indices."""
    generator, shape = torch.Generator().manual_seed(seed), (50, 4, 3)
    indices = torch.stack([torch.randint(size, (6,), generator=generator) for size in shape[:dims]])
    indices[:, 1] = indices[:, 0]
    values = torch.randn(6, *shape[dims:], generator=generator)
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)


@pytest.mark.parametrize(
    ("dims", "dtype", "options"),
    [
        (2, F32, {"momentum": 0.9, "maximize": True}),
        (1, F32, {"momentum": 0.9, "nesterov": True}),
        (1, F32, {"momentum": 0.9, "dampening": 0.4}),
        (1, BF16, {"momentum": 0.5}),  # Each step creates a new bfloat16 buffer.
    ],
    ids=str,
)
def test_sparse_momentum_matches_torch_optim(dims: int, dtype: torch.dtype, options: dict[str, Any]) -> None:
    """Sparse gradients make sparse momentum buffers. The random programs test sparse gradients without momentum."""
    (theirs,) = parameters((50, 4, 3))
    ours = theirs.detach().to(dtype, copy=True).requires_grad_()
    optimizer, peer = OURS["SGD"]([ours], lr=0.1, **options), THEIRS["SGD"]([theirs], lr=0.1, **options)
    tolerance: dict[str, Any] = {} if dtype is F32 else {"check_dtype": False, "rtol": 0.03, "atol": 0.03}
    for number, skip in enumerate([True, False, False, True, False, False]):
        theirs.grad = sparse(dims, number)
        ours.grad = theirs.grad.to(dtype) * 1024
        before, state = ours.detach().clone(), str(optimizer.state)
        step(optimizer, found_inf=float(skip), grad_scale=2048.0, clip_coef=2.0)
        if skip:
            assert same_bits(before, ours)
            assert str(optimizer.state) == state
            continue
        peer.step()
        buffers = [side.state[param]["momentum_buffer"] for side, param in ((optimizer, ours), (peer, theirs))]
        assert all(buffer.is_sparse for buffer in buffers)
        torch.testing.assert_close((ours, buffers[0].to_dense()), (theirs, buffers[1].to_dense()), **tolerance)
        if number == 2:  # Each optimizer continues with the other's state.
            states = [side.state_dict() for side in (peer, optimizer)]
            optimizer.load_state_dict(states[0])
            peer.load_state_dict(states[1])
