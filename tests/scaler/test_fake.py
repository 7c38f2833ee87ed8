"""No host read on devices that are not here: whole iterations on fake tensors, where any read raises.

Gradients are preset, because torch cannot record autograd on fake leaves of such a device. What is computed is not
looked at: tests/backends/test_xla_scaler.py runs the same compositions for real.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import polycast
import pytest
import torch
from polycast import region, syncfree
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.amp.grad_scaler import GradScaler as Scaler
from torch.optim import lr_scheduler
from torch.utils._python_dispatch import TorchDispatchMode

ITERATIONS = 20
SHAPES = ((4, 3), (4,), ())
DEVICES = pytest.mark.parametrize("device", ["cuda", "xpu"])
KINDS: dict[str, Any] = {
    "SGD": lambda params: syncfree.SGD(params, lr=0.1, momentum=0.9),
    "Adam": lambda params: syncfree.Adam(params, lr=0.01),
    "AdamW": lambda params: syncfree.AdamW(params, lr=0.01, amsgrad=True),
}


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(region, "_seen", {})
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


def started(scaler: Any, device: str) -> Any:
    assert scaler.is_enabled()
    scaler.scale(torch.ones(1, device=f"{device}:0"))
    return scaler


@DEVICES
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unscaled", [False, True])
def test_whole_iterations_read_nothing(unscaled: bool, kind: str, device: str) -> None:
    params, others = leaves(device), leaves(device)
    optimizer, other = KINDS[kind](params), syncfree.SGD(others, lr=0.1)
    scaler = started(polycast.GradScaler(), device)
    schedule = polycast.RealStepLR(lr_scheduler.CosineAnnealingLR(optimizer, ITERATIONS), scaler, ITERATIONS)
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
            assert len(scaler.unscale([norm])) == 1
    for result in (scaler.skipped(optimizer), scaler.skip_count(other), optimizer.param_groups[0]["lr"]):
        assert result.device.type == device
    steps = "polycast.sgd_step_" if kind == "SGD" else "polycast.adam_step_"
    wanted = {steps, "polycast.sgd_step_", "polycast.norm", "polycast.find_non_finite", "polycast.update_scale_"}
    wanted |= {"polycast.unscale_"} if unscaled else set()
    assert {name for name in ops.count if name.startswith("polycast.")} == wanted
    assert ops.count["polycast.update_scale_"] == 2 * ITERATIONS
    assert ops.count["polycast.norm"] == 2 * ITERATIONS


@DEVICES
def test_stock_reads(device: str) -> None:
    """Its device is the host's by name only, so that it is enabled: the scale goes to the device of the outputs."""
    params = leaves(device)
    optimizer = torch.optim.SGD(params, lr=0.1)
    scaler = started(Scaler("cpu"), device)
    give(params)
    with pytest.raises(DataDependentOutputException, match="_local_scalar_dense"):
        scaler.step(optimizer)


@DEVICES
@pytest.mark.parametrize("call", ["get_scale", "non_finite", "state_dict", "report_skips", "skipped"])
def test_what_reads_when_asked_would_be_noticed(call: str, device: str) -> None:
    params = leaves(device)
    optimizer = syncfree.SGD(params, lr=0.1)
    scaler = started(polycast.GradScaler(report_skips=call == "report_skips"), device)
    give(params)
    with pytest.raises(DataDependentOutputException):
        scaler.step(optimizer)
        if call == "skipped":
            bool(scaler.skipped(optimizer))
        elif call != "report_skips":
            getattr(scaler, call)(*[optimizer][: call == "non_finite"])


@DEVICES
def test_torchs_optimizers_are_read_for(device: str) -> None:
    params = leaves(device)
    scaler = started(polycast.GradScaler(), device)
    give(params)
    with pytest.raises(DataDependentOutputException):
        scaler.step(torch.optim.SGD(params, lr=0.1))


def test_an_explicit_xpu_is_enabled() -> None:
    assert polycast.GradScaler("xpu").is_enabled()
    assert polycast.GradScaler(torch.device("xpu", 1)).is_enabled()
