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
from torch.amp.grad_scaler import GradScaler as Scaler
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ITERATIONS = 20
SHAPES = ((4, 3), (4,), ())
KINDS: dict[str, Any] = {
    "SGD": lambda params: syncfree.SGD(params, lr=0.1, momentum=0.9),
    "AdamW": lambda params: syncfree.AdamW(params, lr=0.01, amsgrad=True),
}


@pytest.fixture(autouse=True)
def fake() -> Iterator[None]:
    with FakeTensorMode():
        yield


class Ops(TorchDispatchMode):
    """Counts the operators that are called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[str(func).removesuffix(".default")] += 1
        return func(*args, **(kwargs or {}))


def leaves(device: str) -> list[Tensor]:
    return [torch.empty(shape, device=f"{device}:0", requires_grad=True) for shape in SHAPES]


def give(params: list[Tensor]) -> None:
    for param in params:
        param.grad = torch.empty_like(param, requires_grad=False)


def started(device: str, scaler: Any = None) -> Any:
    scaler = scaler or polycast.GradScaler()
    scaler.scale(torch.ones(1, device=f"{device}:0"))
    return scaler


@pytest.mark.parametrize(("kind", "unscaled"), [("SGD", False), ("AdamW", True)])
def test_whole_iterations_read_nothing(kind: str, unscaled: bool) -> None:
    device = "cuda"
    params, others = leaves(device), leaves(device)
    optimizer, other = KINDS[kind](params), syncfree.SGD(others, lr=0.1)
    scaler = started(device)
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
            assert norm.device.type == device
            scaler.step_together(optimizer, other)
            scaler.update()
    for result in (scaler.skipped(optimizer), scaler.skip_count(other), optimizer.param_groups[0]["lr"]):
        assert result.device.type == device
    steps = "polycast.sgd_step_" if kind == "SGD" else "polycast.adam_step_"
    wanted = {steps, "polycast.sgd_step_", "polycast.norm", "polycast.find_non_finite", "polycast.update_scale_"}
    wanted |= {"polycast.unscale_"} if unscaled else set()
    assert {name for name in ops.count if name.startswith("polycast.")} == wanted
    assert ops.count["polycast.update_scale_"] == 2 * ITERATIONS
    assert ops.count["polycast.norm"] == 2 * ITERATIONS
    assert ops.count["polycast.find_non_finite"] == 3 * ITERATIONS  # none for what was clipped


@pytest.mark.parametrize("call", ["step of stock", "step of torch's", "skip_on_host"])
def test_what_reads_would_be_noticed(call: str) -> None:
    """Stock's device is the host's by name only, so that it is enabled: the scale goes to the device of the outputs."""
    params = leaves("cuda")
    scaler = Scaler("cpu") if call == "step of stock" else polycast.GradScaler(skip_on_host=call == "skip_on_host")
    optimizer = (torch.optim if call.startswith("step") else syncfree).SGD(params, lr=0.1)
    started("cuda", scaler)
    give(params)
    with pytest.raises(DataDependentOutputException, match="_local_scalar_dense"):
        scaler.step(optimizer)


class NoFloat64(TorchDispatchMode):
    """Raises where an operator makes a tensor of float64 on MPS, which has not got that."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        on_mps = [leaf.dtype for leaf in tree_leaves(result) if isinstance(leaf, Tensor) and leaf.device.type == "mps"]
        assert torch.float64 not in on_mps, func
        return result


def test_without_float64() -> None:
    """All but the step, which reads and is torch.optim's there."""
    params = leaves("mps")
    optimizer, scaler = syncfree.SGD(params, lr=0.1), started("mps")
    with NoFloat64():
        for unscaled in (False, True):
            give(params)
            if unscaled:
                scaler.unscale_(optimizer)
            scaler.clip_grad_norm(optimizer, 1.0)
            scaler.update()
