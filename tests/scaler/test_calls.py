"""The cost of a training iteration with a scaler: the number of operator calls, and no device sync.

A call is one PyTorch operator that launches work, including the operators that it calls. Views, allocations, and
conversions without an effect do not count, and neither does a learning rate on the CPU.
"""

import math
from collections import Counter
from functools import partial
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.amp.grad_scaler import GradScaler as TorchScaler
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.scaler.common import INF, LOOKS, started
from tests.support.optimizers import clip, composition

VIEWS = ("detach", "detach_", "reshape", "view", "split", "split_with_sizes", "expand", "unbind")
# A step creates its learning rate on the CPU with `scalar_tensor`.
IDLE = {"aten::" + name for name in (*VIEWS, "empty", "empty_like", "new_empty", "lift_fresh", "item", "scalar_tensor")}


def calls(event: Any) -> Counter[str]:
    """Return the calls of a profiler event: the event itself if it is an ATen operator, or its children's calls."""
    launches = event.name not in IDLE and (
        event.name != "aten::to" or any(child.name == "aten::_to_copy" for child in event.cpu_children)
    )
    if event.name.startswith("aten::"):
        return Counter([event.name] if launches else [])
    return sum(map(calls, event.cpu_children), Counter())


def counted(number: int, groups: int, is_ours: bool = True, dtype: torch.dtype = torch.float32) -> Counter[str]:
    """Return the calls of the second iteration, which creates no state, with kernels that call PyTorch's operators."""
    params = [torch.ones(8, 4, dtype=dtype).requires_grad_() for _ in range(number * groups)]
    for param in params:
        param.grad = torch.ones_like(param, requires_grad=False)
    make: Any = (
        partial(syncfree.AdamW, state_dtype=torch.float32) if is_ours else partial(torch.optim.AdamW, fused=True)
    )
    optimizer = make([{"params": params[group::groups]} for group in range(groups)])
    scaler = started(None if is_ours else TorchScaler("cpu"))
    with composition():
        for _ in range(2):
            with torch.autograd.profiler.profile() as profile:  # type: ignore[no-untyped-call]
                clip(scaler, optimizer, 1.0)
                scaler.step(optimizer)
                scaler.update()
    return sum((calls(event) for event in profile.function_events if event.cpu_parent is None), Counter())


@pytest.mark.parametrize(
    ("dtype", "groups", "more"), [(torch.float32, 1, 0), (torch.float32, 2, 2), (torch.bfloat16, 1, 3)], ids=str
)
def test_calls_do_not_grow_with_the_parameters_and_do_not_exceed_pytorchs(
    dtype: torch.dtype, groups: int, more: int
) -> None:
    """polycast makes at most ``more`` calls above PyTorch: copies to the state's dtype, or calls for a second group."""
    one, few = (counted(number, groups, dtype=dtype) for number in (1, 2))
    assert one.total() <= few.total()
    assert few == counted(161, groups, dtype=dtype)
    assert one.total() <= counted(1, groups, is_ours=False).total() + more, one


class Ops(TorchDispatchMode):
    """A dispatch mode that counts operator calls, and raises for float64 on MPS and unfinished copies to the CPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[str(func).removesuffix(".default")] += 1
        options = kwargs or {}
        assert not (options.get("non_blocking") and getattr(options.get("device"), "type", None) == "cpu"), func
        if isinstance(lr := options.get("lr"), Tensor):
            assert lr.device.type in ("cpu", args[0][0].device.type), func
        result = func(*args, **options)
        on_mps = [leaf.dtype for leaf in tree_leaves(result) if isinstance(leaf, Tensor) and leaf.device.type == "mps"]
        assert torch.float64 not in on_mps, func
        return result


def fakes(device: str) -> list[Tensor]:
    """Return fake parameters with gradients, because autograd cannot run on fake leaves of an absent device."""
    params = [torch.empty(shape, device=f"{device}:0", requires_grad=True) for shape in ((4, 3), (4,), ())]
    for param in params:
        param.grad = torch.empty_like(param, requires_grad=False)
    return params


@pytest.mark.parametrize(
    ("kind", "look", "wanted"),
    [
        # The step does not check clipped gradients again.
        ("SGD", "clip_grad_norm", {"sgd_step_": 4, "norm": 1, "find_non_finite": 3}),
        ("AdamW", "unscale_", {"sgd_step_": 2, "adam_step_": 2, "unscale_": 1, "find_non_finite": 3}),
    ],
)
def test_whole_iterations_on_cuda_do_not_sync(kind: str, look: str, wanted: dict[str, int]) -> None:
    """The tensors are fake, so that any device sync raises."""
    with FakeTensorMode(), Ops() as ops:
        optimizer, other = getattr(syncfree, kind)(fakes("cuda"), lr=0.1), syncfree.SGD(fakes("cuda"), lr=0.1)
        scaler = polycast.GradScaler()
        scaler.scale(torch.ones(1, device="cuda:0"))
        schedule = polycast.SkipAwareLR(optimizer, lambda steps: (1 + torch.cos(steps * math.pi / 9)) / 2, scaler)
        ops.count.clear()
        results = [LOOKS[look](scaler, optimizer)]
        scaler.step(optimizer)
        scaler.step(other)
        scaler.update()
        schedule.step()
        scaler.step_together(optimizer, other)
        scaler.update()
        results += [scaler.step_was_skipped(optimizer), scaler.skip_count(other), optimizer.param_groups[0]["lr"]]
    assert {result.device.type for result in results if result is not None} == {"cuda"}
    found = {name.removeprefix("polycast."): count for name, count in ops.count.items() if name[:9] == "polycast."}
    assert found == {**wanted, "update_scale_": 2}


def test_no_float64_on_mps() -> None:
    """MPS has no float64. The test omits the step, which syncs, because ``torch.optim`` runs the step on MPS."""
    with FakeTensorMode(), Ops():
        optimizer, scaler = syncfree.SGD(fakes("mps"), lr=0.1), polycast.GradScaler()
        scaler.scale(torch.ones(1, device="mps:0"))
        scaler.clip_grad_norm(optimizer, 1.0, INF)
        scaler.unscale_(optimizer)
        scaler.update()
        scaler.clip_grad_norm(optimizer, 1.0)
        scaler.update()


@pytest.mark.parametrize("look", LOOKS)
def test_the_cpu_waits_for_scalars_of_another_device(look: str) -> None:
    with FakeTensorMode(), Ops():
        param = torch.ones(3, requires_grad=True)
        param.grad = torch.ones(3)
        optimizer, scaler = syncfree.SGD([param], lr=0.1), polycast.GradScaler()
        optimizer.param_groups[0]["lr"] = torch.full((), 0.1, device="cuda:0")  # `SkipAwareLR` does so.
        scaler.scale(torch.ones(1, device="cuda:0"))
        LOOKS[look](scaler, optimizer)
        scaler.step(optimizer)
        scaler.update()
