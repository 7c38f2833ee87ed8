"""The scale and its state: bounds, checkpoints, devices, and a disabled scaler.

The random programs cover the update of the scale and copies of a scaler.
"""

import json
from collections.abc import Callable
from typing import Any
from unittest import mock

import polycast
import pytest
import torch
from polycast import syncfree
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.scaler.common import INF, NAN, OPTIMIZERS, Loop, started

SMALLEST = torch.finfo(torch.float32).tiny


@pytest.mark.parametrize(
    ("bounds", "grads", "scales"),
    [
        ({"min_scale": 3.0}, [INF, INF, NAN, 1.0], [4.0, 3.0, 3.0, 6.0]),
        ({"max_scale": 20.0}, [1.0, 1.0, 1.0, INF], [16.0, 20.0, 20.0, 10.0]),
        ({"min_scale": 8.0, "max_scale": 8.0}, [1.0, INF], [8.0, 8.0]),
        ({"backoff_factor": 0.0}, [INF, 1.0], [SMALLEST, 2 * SMALLEST]),
        ({"growth_factor": 1.5}, [1.0, 1.0], [12.0, 18.0]),
    ],
    ids=str,
)
def test_the_scale_stays_within_its_bounds(bounds: dict[str, Any], grads: list[float], scales: list[float]) -> None:
    loop = Loop(polycast.GradScaler(**{"init_scale": 8.0, "growth_interval": 1} | bounds))
    assert [loop.iterate(grad) for grad in grads] == scales


@pytest.mark.parametrize(
    "change",
    [{"scale": 0.0}, {"scale": NAN}, {"growth_factor": "a"}, {"_growth_tracker": "a"}, {"growth_interval": 2.5}],
    ids=str,
)
def test_an_invalid_state_is_not_loaded_in_part(change: dict[str, Any]) -> None:
    scaler = started(polycast.GradScaler("cpu"))
    state = scaler.state_dict()
    with pytest.raises((TypeError, ValueError), match="expected"):
        scaler.load_state_dict(dict.fromkeys(state, 3) | change)
    assert scaler.state_dict() == state


@pytest.mark.parametrize("change", [lambda it: it.set_growth_factor(0.5), lambda it: it.set_growth_interval(0)])
def test_a_scale_that_cannot_grow_again_warns(change: Callable[[Any], None]) -> None:
    loop = Loop(polycast.GradScaler(init_scale=8.0))
    change(loop.scaler)
    with pytest.warns(UserWarning, match="the scale cannot rise again"):
        assert loop.iterate(1.0) == 8.0


def test_the_check_of_an_optimizer_that_was_freed_after_its_step_counts() -> None:
    scaler, weight = started(init_scale=8.0), torch.ones(1, requires_grad=True)
    weight.grad = torch.full((1,), INF)
    scaler.step(torch.optim.SGD([weight], lr=0.1))
    scaler.update()
    assert scaler.get_scale() == 4.0


def test_a_norm_of_another_order_is_clipped_by_pytorchs_function_after_unscale() -> None:
    scaler, weight = started(init_scale=8.0), torch.zeros(2, requires_grad=True)
    optimizer, weight.grad = syncfree.SGD([weight], lr=1.0), torch.tensor([8.0, 24.0])
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_([weight], 2.0, norm_type=1)
    scaler.step(optimizer)
    assert weight.tolist() == pytest.approx([-0.5, -1.5])


def test_a_state_has_pytorchs_names_and_numbers() -> None:
    ours, theirs = started(polycast.GradScaler("cpu")), started(Scaler("cpu"))
    ours.update(128)
    theirs.update(128.0)
    assert json.dumps(ours.state_dict()) == json.dumps(theirs.state_dict())


@pytest.mark.parametrize("device", [None, "cpu:0"])
def test_the_device_is_an_argument_or_the_device_of_the_first_outputs(device: str | None) -> None:
    scaler, theirs = polycast.GradScaler(device), Scaler("cpu")
    outputs: Any = [torch.ones(1), (torch.full((1,), 2.0), [torch.full((1,), 3.0)])]
    assert scaler.scale(outputs) == theirs.scale(outputs)
    scaler.update(torch.tensor(8.0))  # The new scale must be on the scaler's device.
    assert scaler.get_scale() == 8.0


@pytest.mark.parametrize("device", ["cuda:0", torch.device("cuda", 1)])
def test_cuda_without_cuda_is_disabled_as_in_pytorch_and_xpu_is_not(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: True)
    with pytest.warns(UserWarning) as theirs:
        Scaler("cuda")
    with pytest.warns(UserWarning) as ours:
        scaler = polycast.GradScaler(device)
    assert [str(warning.message) for warning in ours] == [str(warning.message) for warning in theirs]
    assert not scaler.is_enabled()
    assert polycast.GradScaler("xpu").is_enabled()


@pytest.mark.parametrize("library", [syncfree, torch.optim], ids=["sync-free", "torch"])
def test_a_disabled_scaler_has_no_effect_steps_and_skips_no_step(library: Any) -> None:
    loop, theirs = Loop(polycast.GradScaler(enabled=False), library, lr=0.5), Scaler("cpu", enabled=False)
    scaler, optimizer, param, loss = loop.scaler, loop.optimizer, loop.param, object()
    assert scaler.scale(loss) is loss
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)
    loop.iterate(3.0)
    assert scaler.step(optimizer, closure=lambda: 7.0) == 7.0
    scaler.step_together(optimizer)
    assert param.item() == 1 - 3 * 0.5 * 3
    scaler.update(3.0)
    scaler.load_state_dict({"scale": 3.0})
    for question in ("is_enabled", "get_scale", "_get_growth_tracker", "state_dict"):
        assert getattr(scaler, question)() == getattr(theirs, question)()
    for norm_type in (2, "inf"):
        param.grad = torch.tensor(-3.0)
        assert (scaler.clip_grad_norm(optimizer, 1.5, norm_type).item(), param.grad.item()) == pytest.approx((3, -1.5))
    loop.iterate(INF)
    assert (scaler.step_was_skipped(optimizer), scaler.skip_count(optimizer)) == (0, 0)
    assert scaler.non_finite(optimizer) == []


UNSCALE, CHECK, STEP = "_unscale_grads_", "_check_inf_per_device", "_maybe_opt_step"


@pytest.mark.parametrize(
    ("kind", "unscales", "calls"),
    [
        ("sync-free", False, [CHECK, UNSCALE]),
        ("sync-free", True, [UNSCALE]),
        ("fused", False, [CHECK, UNSCALE, CHECK]),
        ("fused", True, [UNSCALE]),
        ("for-loop", False, [UNSCALE, STEP]),
    ],
)
def test_methods_that_pytorchs_scaler_calls_can_be_overridden(kind: str, unscales: bool, calls: list[str]) -> None:
    """The scaler calls the methods that trainers override. An override of ``_unscale_grads_`` also checks gradients."""
    scaler, param, called = started(), torch.ones(2, requires_grad=True), mock.Mock()
    for name in (UNSCALE, CHECK, STEP):
        setattr(scaler, name, mock.Mock(wraps=getattr(scaler, name)))
        called.attach_mock(getattr(scaler, name), name)
    optimizer, param.grad = OPTIMIZERS[kind]([param]), torch.ones(2)
    if unscales:
        scaler.unscale_(optimizer)
    scaler.step(optimizer, None)  # Accelerate passes None as a positional argument.
    assert [call[0] for call in called.mock_calls] == calls
    assert param.tolist() != [1.0, 1.0]
