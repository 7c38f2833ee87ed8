"""Parameters, gradients and states of every layout and type: the step is torch.optim's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.optimizers import KINDS, OURS, PATHS, THEIRS, make, set_grads

F32, C64 = torch.float32, torch.complex64


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = F32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: numbers(4, 6),
    "transposed": lambda: numbers(6, 4).t(),
    "permuted": lambda: numbers(2, 3, 4).permute(1, 2, 0),
    "channels last": lambda: numbers(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "every second": lambda: numbers(4, 12)[:, ::2],
    "a column": lambda: numbers(40, 3)[:, 1],
    "0-d": lambda: numbers(),
    "0-d of a view": lambda: numbers(4)[2],
    "empty": lambda: numbers(0),
    "empty, 2-d": lambda: numbers(3, 0),
    "one element, odd strides": lambda: numbers(8).as_strided((1, 1), (5, 7)),
    "unaligned": lambda: numbers(1100)[1:],
    "a block and more": lambda: numbers(2050)[1:-1],
    "two threads": lambda: numbers(70_001),
    "complex": lambda: numbers(3, 5, dtype=C64),
    "complex transposed": lambda: numbers(3, 5, dtype=C64).t(),
    "complex every second": lambda: numbers(3, 6, dtype=C64)[:, ::2],
    "bfloat16 every second": lambda: numbers(4, 12).bfloat16()[:, ::2],
    "float64": lambda: numbers(4, 6).double(),
}
GRADS: dict[str, Callable[[Tensor], Tensor]] = {
    "same": lambda grad: torch.empty_like(grad).copy_(grad),
    "contiguous": lambda grad: grad.contiguous(),
    "transposed": lambda grad: grad.mT.contiguous().mT if grad.dim() > 1 else grad,
    "expanded": lambda grad: grad[:1].expand_as(grad) if grad.dim() else grad,
    "strided": lambda grad: torch.stack([grad, grad], -1)[..., 0],
    "conjugated": lambda grad: grad.conj(),
    "negated": lambda grad: torch._neg_view(grad),
}


def stepped(library: dict[str, Any], kind: str, first: Tensor, grad_of: Callable[[Tensor], Tensor]) -> Tensor:
    param = first.requires_grad_()
    optimizer = make(library, kind, [param])
    for number in range(3):
        grad = grad_of(numbers(*first.shape, seed=number + 5, dtype=first.dtype))
        # Torch's Adam takes no conjugated views.
        param.grad = grad if library is OURS else grad.resolve_conj().resolve_neg()
        optimizer.step()
    return param


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["SGD", "SGD nesterov", "Adam", "Adam amsgrad", "AdamW"])
def test_layouts(kind: str, layout: str, path: str) -> None:
    for grad_of in GRADS.values():
        wanted = stepped(THEIRS, kind, LAYOUTS[layout](), grad_of)
        with PATHS[path]():
            found = stepped(OURS, kind, LAYOUTS[layout](), grad_of)
        assert found.stride() == wanted.stride()
        tolerance = 0.02 if found.dtype is torch.bfloat16 else 2e-6
        torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_views_that_share_storage_without_overlap(kind: str, path: str) -> None:
    def weights(library: dict[str, Any]) -> Tensor:
        memory = numbers(4, 12)
        params = [memory[:, :3], memory[:2, 3:], memory[2:, 3::2], memory[2:, 4::2]]
        optimizer = make(library, kind, [param.requires_grad_() for param in params])
        for number in range(3):
            for param in params:
                param.grad = numbers(*param.shape, seed=number + 9)
            optimizer.step()
        return memory

    with PATHS[path]():
        found = weights(OURS)
    torch.testing.assert_close(found, weights(THEIRS), rtol=2e-6, atol=2e-6)


SHARING: dict[str, Callable[[Tensor], list[Tensor]]] = {
    "the same memory": lambda memory: [memory.view(-1), memory.view(-1)],
    "one element in common": lambda memory: [memory.view(-1)[:20], memory.view(-1)[19:30]],
    "one within the other": lambda memory: [memory, memory[3:5]],
    "strided, in common": lambda memory: [memory.view(-1)[::2], memory.view(-1)[::3]],
    "the third with the first": lambda memory: [memory[:4], memory[4:6], memory[3:4]],
    "columns": lambda memory: [memory[:, :4], memory[:, 4:]],
    "rows": lambda memory: [memory[:3], memory[3:]],
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", SHARING)
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_on_one_storage(kind: str, case: str, path: str) -> None:
    """Each is stepped after the one before it, as by torch.optim, also where they have elements in common."""

    def weights(library: dict[str, Any]) -> Tensor:
        memory = numbers(100, 10)
        params = [view.detach().requires_grad_() for view in SHARING[case](memory)]
        optimizer = make(library, kind, params)
        for _ in range(3):
            set_grads(params, 1)
            optimizer.step()
        return memory

    with PATHS[path]():
        found = weights(OURS)
    torch.testing.assert_close(found, weights(THEIRS), rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_gradients_of_another_type(dtype: torch.dtype, path: str) -> None:
    """At operator level; an optimizer never sees them, since torch refuses to set such a gradient."""
    grads = [numbers(3, 5, seed=1).to(dtype), numbers(7, seed=2).to(dtype)]
    weights = []
    for given in (grads, [grad.float() for grad in grads]):
        params = [numbers(3, 5), numbers(7)]
        state = [[torch.zeros_like(param) for param in params] for _ in range(3)]
        steps = [torch.zeros(()) for _ in params]
        with PATHS[path]():
            torch.ops.polycast.adam_step_(
                params, given, *state, steps, lr=torch.tensor(0.1), beta1=0.9, beta2=0.999, weight_decay=0.1,
                eps=1e-8, decoupled_weight_decay=False, maximize=False,
            )  # fmt: skip
            torch.ops.polycast.sgd_step_(
                params, given, state[0], [], lr=torch.tensor(0.1), weight_decay=0.1, momentum=0.9, dampening=0.0,
                nesterov=False, maximize=False,
            )  # fmt: skip
        weights.append([*params, *state[0], *state[1], *state[2], *steps])
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-6, atol=1e-6)
    assert steps[0].item() == 1
