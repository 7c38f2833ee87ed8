"""Parameters that share memory, and gradients of other dtypes; the other layouts are those of the random programs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.devices import has_float64
from tests.support.optimizers import OURS, THEIRS, Kernels, make, set_grads

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
    ("kind", "dtype", "tolerance"),
    [("SGD nesterov", torch.float32, 3e-6), ("SGD nesterov", torch.bfloat16, 3e-2), ("AdamW", torch.float32, 3e-6)],
    ids=str,
)
def test_parameters_on_one_storage_step_one_after_the_other(
    kind: str, dtype: torch.dtype, tolerance: float, case: str, real_device: str
) -> None:
    """As by torch.optim, also where they have elements in common; what lies between them stays."""

    def weights(library: dict[str, Any], device: str) -> Tensor:
        memory = numbers(100, 10).to(device, dtype)
        params = [view.detach().requires_grad_() for view in SHARING[case](memory)]
        optimizer = make(library, kind, params)
        for _ in range(3):
            set_grads(params, 1)
            optimizer.step()
        return memory.cpu()

    found, wanted = weights(OURS, real_device), weights(THEIRS, "cpu")
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_gradients_of_another_type_are_those_of_the_parameters_type(dtype: torch.dtype, kernels: Kernels) -> None:
    """At operator level; an optimizer never sees them, since torch refuses to set such a gradient."""
    device = kernels.device
    if dtype is torch.float64 and not has_float64(device):
        pytest.skip(f"{kernels} has no float64")
    grads = [numbers(3, 5, seed=1).to(device, dtype), numbers(7, seed=2).to(device, dtype)]
    weights = []
    for given in (grads, [grad.float() for grad in grads]):
        params = [numbers(3, 5).to(device), numbers(7).to(device)]
        state = [[torch.zeros_like(param) for param in params] for _ in range(3)]
        steps = [torch.zeros((), device=device) for _ in params]
        torch.ops.polycast.adam_step_(
            params, given, *state, steps, lr=torch.tensor(0.1), beta1=0.9, beta2=0.999, weight_decay=0.1,
            eps=1e-8, decoupled_weight_decay=False, maximize=False,
        )  # fmt: skip
        torch.ops.polycast.sgd_step_(
            params, given, state[0], lr=torch.tensor(0.1), weight_decay=0.1, momentum=0.9, nesterov=False,
            maximize=False,
        )  # fmt: skip
        weights.append([*params, *state[0], *state[1], *state[2], *steps])
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-6, atol=1e-6)
    assert steps[0].item() == 1


@pytest.mark.parametrize("kind", ["SGD momentum", "AdamW"])
def test_a_gradient_that_lies_otherwise_is_copied_in_parts(kind: str) -> None:
    param = numbers(1024, 2048).requires_grad_()
    param.grad = numbers(2048, 1024, seed=1).t()
    optimizer = make(OURS, kind, [param])
    optimizer.step()
    with torch.autograd.profiler.profile(profile_memory=True) as profile:  # type: ignore[no-untyped-call]
        optimizer.step()
    assert max(event.cpu_memory_usage for event in profile.function_events) <= param.nbytes // 8


@pytest.mark.parametrize("kind", ["SGD momentum", "AdamW"])
def test_parameters_that_are_copied_on_write(kind: str) -> None:
    weights = []
    for clone in (torch._lazy_clone, torch.clone):
        memory = [numbers(3, 5), numbers(700, seed=1)]
        params = [clone(tensor).requires_grad_() for tensor in memory]
        set_grads(params, 1)
        make(OURS, kind, params).step()
        assert memory[0].equal(numbers(3, 5))
        weights.append(params)
    torch.testing.assert_close(*weights)
