"""The steps on devices without kernels of ours: in threads, in inference mode, and beside autograd."""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from polycast.syncfree import torch_fused

from tests.support.optimizers import OURS, PATHS, composition, make, parameters, set_grads, tensors

EACH = pytest.mark.parametrize(
    ("kind", "path"), [("AdamW", "composition"), ("AdamW", "torch.optim"), ("SGD dampening", "torch.optim")]
)


def trained(kind: str, seed: int, **more: Any) -> list[torch.Tensor]:
    params = parameters((3, 2), (), (5,), seed=seed)
    optimizer: Any = make(OURS, kind, params, **more)
    for step in range(5):
        set_grads(params, seed + step)
        optimizer.step(found_inf=torch.tensor(float(step == 2)), grad_scale=torch.tensor(4.0))
    return tensors(optimizer)


@EACH
def test_threads_step_models_of_their_own(kind: str, path: str) -> None:
    interval = sys.getswitchinterval()
    with PATHS[path](), ThreadPoolExecutor(4) as pool:
        wanted = [trained(kind, seed) for seed in range(8)]
        sys.setswitchinterval(1e-6)
        try:
            found = list(pool.map(lambda seed: trained(kind, seed), range(8), timeout=60))
        finally:
            sys.setswitchinterval(interval)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["SGD momentum", "AdamW"])
def test_a_step_by_copies_of_a_few_parameters_at_a_time_is_the_step(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """State of another dtype is stepped by copies; with a limit of 4 elements by those of one parameter at a time."""
    with composition():
        wanted = trained(kind, 0, state_dtype=torch.float64)
        monkeypatch.setattr(torch_fused, "LIMIT", 4)
        found = trained(kind, 0, state_dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@EACH
def test_a_step_in_inference_mode(kind: str, path: str) -> None:
    with PATHS[path]():
        wanted = trained(kind, 0)
        with torch.inference_mode():
            found = trained(kind, 0)
    torch.testing.assert_close([tensor.clone() for tensor in found], wanted, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["SGD momentum", "AdamW"])
def test_leaves_that_require_grad_are_written_in_grad_mode(kind: str) -> None:
    """Autograd's keys fall through to the kernel, which computes below them: nothing is recorded."""
    param, grad, *state = (torch.ones(3) for _ in range(4))
    param.requires_grad_()
    saved: Any = (param * param).sum()
    options: dict[str, Any] = {"lr": torch.tensor(0.1), "weight_decay": 0.1, "maximize": False}
    with composition():
        if kind == "AdamW":
            more = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decoupled_weight_decay": True}
            lists = [[param], [grad], [state[0]], [state[1]], [], [torch.zeros(())]]
            torch.ops.polycast.adam_step_(*lists, **options, **more)
        else:
            more = {"momentum": 0.9, "nesterov": False}
            torch.ops.polycast.sgd_step_([param], [grad], [state[0]], **options, **more)
        torch.ops.polycast.unscale_([param], torch.zeros(()), torch.tensor(0.5))
        norm = torch.ops.polycast.norm([param], 2.0)[0]
    assert param.is_leaf
    assert param.requires_grad
    assert not norm.requires_grad
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()
