"""A device that is given or not, `enabled=False`, and hooks that a subclass overrides."""

from typing import Any

import polycast
import pytest
import torch
from polycast import backends, syncfree
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.scaler.common import INF, OPTIMIZERS, started


def weight(grad: float = 1.0) -> Tensor:
    param = torch.ones(2, requires_grad=True)
    param.grad = torch.full_like(param, grad).detach()
    return param


def test_an_explicit_xpu_is_enabled() -> None:
    assert polycast.GradScaler("xpu").is_enabled()


@pytest.mark.parametrize("device", [None, "cpu:0"])
def test_the_device_is_given_or_taken_from_the_first_outputs(device: str | torch.device | None) -> None:
    scaler, theirs = polycast.GradScaler(device), Scaler("cpu")
    outputs: Any = [torch.ones(1), (torch.full((1,), 2.0), [torch.full((1,), 3.0)])]
    assert scaler.scale(outputs) == theirs.scale(outputs)
    scaler.update(torch.tensor(8.0))  # which has to be on the scaler's device
    assert scaler.get_scale() == 8.0


@pytest.mark.parametrize("device", ["cuda:0", torch.device("cuda", 1)])
def test_cuda_without_cuda_is_disabled_as_torchs_is(
    device: str | torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: True)
    with pytest.warns(UserWarning) as theirs:
        Scaler("cuda")
    with pytest.warns(UserWarning) as ours:
        scaler = polycast.GradScaler(device)
    assert [str(warning.message) for warning in ours] == [str(warning.message) for warning in theirs]
    assert [warning.filename for warning in ours] == [__file__]
    assert not scaler.is_enabled()


@pytest.mark.parametrize("library", [syncfree, torch.optim], ids=["sync-free", "torch"])
def test_a_disabled_scaler_does_nothing_and_steps(library: Any) -> None:
    scaler, theirs = polycast.GradScaler(enabled=False), Scaler("cpu", enabled=False)
    param = weight(3.0)
    optimizer = library.SGD([param], lr=0.5)
    loss = torch.ones(1)
    assert scaler.scale(loss) is loss
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer, closure=lambda: 7.0) == 7.0
    assert param.tolist() == [-0.5, -0.5]
    scaler.step_together(optimizer)
    assert param.tolist() == [-2.0, -2.0]
    scaler.update()
    scaler.update(3.0)
    scaler.load_state_dict({"scale": 3.0})
    for question in ("is_enabled", "get_scale", "_get_growth_tracker", "state_dict"):
        assert getattr(scaler, question)() == getattr(theirs, question)()
    cases: tuple[tuple[Any, float], ...] = ((1.0, 6.0), (2, 18**0.5), ("inf", 3.0))
    for norm_type, norm in cases:
        param.grad = torch.full((2,), 3.0)
        torch.testing.assert_close(scaler.clip_grad_norm(optimizer, 1.0, norm_type), torch.tensor(norm))
        torch.testing.assert_close(param.grad, torch.full((2,), 3 / norm))


def test_a_disabled_scaler_claims_nothing_of_gradients_that_it_did_not_look_at() -> None:
    """It skips no step, and looks where it is asked what is not finite."""
    scaler = polycast.GradScaler(enabled=False)
    optimizer = syncfree.SGD([("body", weight()), ("head", weight())], lr=0.5)
    optimizer.param_groups[0]["params"][1].grad[0] = INF
    assert scaler.non_finite(optimizer) == ["head"]
    scaler.step(optimizer)
    assert scaler.non_finite(optimizer) == ["head"]
    assert (scaler.skipped(optimizer).item(), scaler.skip_count(optimizer).item()) == (False, 0)
    optimizer.param_groups[0]["params"][1].grad[0] = 1.0
    assert scaler.non_finite(optimizer) == []


class Asked(polycast.GradScaler):
    """A subclass that overrides torch's hooks, as trainers have them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def _unscale_grads_(self, *args: Any) -> Any:
        self.calls.append("_unscale_grads_")
        return super()._unscale_grads_(*args)

    def _check_inf_per_device(self, optimizer: Any) -> Any:
        self.calls.append("_check_inf_per_device")
        return super()._check_inf_per_device(optimizer)

    def _maybe_opt_step(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append("_maybe_opt_step")
        return super()._maybe_opt_step(*args, **kwargs)


@pytest.mark.parametrize(
    ("kind", "unscales", "calls"),
    [
        ("sync-free", False, ["_check_inf_per_device", "_maybe_opt_step"]),
        ("sync-free", True, ["_unscale_grads_", "_maybe_opt_step"]),
        ("fused", False, ["_check_inf_per_device"] * 2),
        ("fused", True, ["_unscale_grads_"]),
        ("for-loop", False, ["_unscale_grads_", "_maybe_opt_step"]),
    ],
)
def test_hooks_that_a_subclass_overrides_are_called(kind: str, unscales: bool, calls: list[str]) -> None:
    scaler, param = started(Asked()), weight()
    optimizer = OPTIMIZERS[kind]([param])
    if unscales:
        scaler.unscale_(optimizer)
    scaler.step(optimizer, None)  # no closure, by position, as Accelerate says it
    assert scaler.calls == calls
    assert param.tolist() != [1.0, 1.0]


@pytest.mark.parametrize(("device", "made_on"), [(None, None), ("cpu", None), (None, "cpu")])
def test_the_scale_may_be_made_before_anything_is_scaled(
    device: Any, made_on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a checkpoint is loaded first: on the device that the scaler names, or on one given as text."""
    monkeypatch.setattr(backends, "current", lambda: "cpu")
    scaler: Any = polycast.GradScaler(device)
    scaler._lazy_init_scale_growth_tracker(made_on or scaler._device)
    scaler.update(torch.tensor(4.0))
    assert (scaler.get_scale(), scaler._device) == (4.0, "cpu")
