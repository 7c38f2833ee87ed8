"""No sync on devices that are not here: whole iterations on fake tensors, where any read raises.

Gradients are preset, because torch cannot record autograd on fake leaves of such a device. What is computed is not
looked at: test_training.py runs whole iterations for real.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ITERATIONS = 20


@pytest.fixture(autouse=True)
def fake() -> Iterator[None]:
    with FakeTensorMode():
        yield


class Ops(TorchDispatchMode):
    """Counts the operators that are called, and raises where one makes a tensor of float64 on MPS, which has none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[str(func).removesuffix(".default")] += 1
        result = func(*args, **(kwargs or {}))
        on_mps = [leaf.dtype for leaf in tree_leaves(result) if isinstance(leaf, Tensor) and leaf.device.type == "mps"]
        assert torch.float64 not in on_mps, func
        return result


def leaves(device: str) -> list[Tensor]:
    return [torch.empty(shape, device=f"{device}:0", requires_grad=True) for shape in ((4, 3), (4,), ())]


def give(params: list[Tensor]) -> None:
    for param in params:
        param.grad = torch.empty_like(param, requires_grad=False)


def started(device: str, **options: Any) -> polycast.GradScaler:
    scaler = polycast.GradScaler(**options)
    scaler.scale(torch.ones(1, device=f"{device}:0"))
    return scaler


@pytest.mark.parametrize(("kind", "unscaled"), [("SGD", False), ("AdamW", True)])
def test_whole_iterations_on_cuda_read_nothing(kind: str, unscaled: bool) -> None:
    params, others = leaves("cuda"), leaves("cuda")
    optimizer, other = getattr(syncfree, kind)(params, lr=0.1), syncfree.SGD(others, lr=0.1)
    scaler = started("cuda")
    schedule = polycast.SkipAwareLR(optimizer, lambda steps: (1 + torch.cos(steps * math.pi / ITERATIONS)) / 2, scaler)
    with Ops() as ops:
        for _ in range(ITERATIONS):
            give(params)
            give(others)
            if unscaled:
                scaler.unscale_(optimizer)
            norm = scaler.clip_grad_norm(optimizer, 1.0)
            scaler.clip_grad_norm(optimizer, 0.5, float("inf"))
            scaler.step(optimizer)
            scaler.step(other)
            scaler.update()
            schedule.step()
            scaler.step_together(optimizer, other)
            scaler.update()
    for result in (norm, scaler.skipped(optimizer), scaler.skip_count(other), optimizer.param_groups[0]["lr"]):
        assert result.device.type == "cuda"
    calls = {name: count // ITERATIONS for name, count in ops.count.items() if name.startswith("polycast.")}
    steps = {"polycast.sgd_step_": 4} if kind == "SGD" else {"polycast.sgd_step_": 2, "polycast.adam_step_": 2}
    # What was clipped is not looked at again.
    looks = {"polycast.norm": 2, "polycast.find_non_finite": 3, "polycast.update_scale_": 2}
    assert calls == {**steps, **looks, **({"polycast.unscale_": 1} if unscaled else {})}


@pytest.mark.parametrize(("library", "options"), [(torch.optim, {}), (syncfree, {"skip_on_host": True})])
def test_what_reads_would_be_noticed(library: Any, options: dict[str, bool]) -> None:
    params = leaves("cuda")
    optimizer, scaler = library.SGD(params, lr=0.1), started("cuda", **options)
    give(params)
    with pytest.raises(DataDependentOutputException, match="_local_scalar_dense"):
        scaler.step(optimizer)


def test_mps_has_no_float64() -> None:
    """All but the step, which reads and is torch.optim's there."""
    params = leaves("mps")
    optimizer, scaler = syncfree.SGD(params, lr=0.1), started("mps")
    with Ops():
        for unscaled in (False, True):
            give(params)
            if unscaled:
                scaler.unscale_(optimizer)
            scaler.clip_grad_norm(optimizer, 1.0)
            scaler.update()
