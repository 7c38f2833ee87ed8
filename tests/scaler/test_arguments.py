"""A gradient scaler's answers to wrong arguments, to a device that is given or not, and to `enabled=False`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.scaler.common import INF, OPTIMIZERS, started


def sentence(call: Callable[[], object]) -> str:
    """Return the type and the text of what a call raises."""
    try:
        call()
    except Exception as error:  # the comparison is the test
        return f"{type(error).__name__}: {error}"
    return "nothing is raised"


@pytest.mark.parametrize(
    "call",
    [
        lambda scaler: scaler.update(torch.ones(2)),
        lambda scaler: scaler.update(torch.ones(1, requires_grad=True)),
        lambda scaler: scaler.scale(5),
        lambda scaler: scaler.load_state_dict({}),
    ],
    ids=["two new scales", "a new scale with a gradient", "scale of a number", "an empty state"],
)
def test_what_torch_refuses_of_arguments_is_refused_with_its_text(call: Callable[[Any], object]) -> None:
    """What it refuses of the order of calls is in the random programs."""
    found, wanted = (sentence(partial(call, scaler)) for scaler in (started(), started(Scaler("cpu"))))
    assert found.startswith(wanted)
    assert wanted != "nothing is raised"


def weight(grad: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    param = torch.ones(2, dtype=dtype, requires_grad=True)
    param.grad = torch.full_like(param, grad).detach()
    return param


def sync_free(dtype: torch.dtype = torch.float32) -> Any:
    return syncfree.SGD([("body", weight()), ("head", weight(dtype=dtype))], lr=0.5)


NO_OPTIMIZER = (
    "was given for an optimizer and has no param_groups; pass the optimizer itself, not its parameters, and each one "
    "by itself"
)
# Calls, and what they raise. The scaler has scaled, and the optimizer has gradients.
WRONG = f"""\
polycast.GradScaler(2.0**10)
  TypeError: the device is 1024.0; give a text such as 'cpu', or a torch.device
polycast.GradScaler(["cpu"])
  TypeError: the device is ['cpu']; give a text such as 'cpu', or a torch.device
scaler.scale("x")
  ValueError: outputs must be a Tensor or an iterable of Tensors, and are a str; pass the loss
scaler.scale({{"loss": torch.ones(1)}})
  ValueError: outputs must be a Tensor or an iterable of Tensors, and are a dict; pass the loss
scaler.scale([torch.ones(1), {{"loss": torch.ones(1)}}])
  ValueError: outputs must be a Tensor or an iterable of Tensors, and are a dict; pass the loss
polycast.GradScaler("cpu", "1024")
  TypeError: init_scale is '1024'; it takes a number
polycast.GradScaler(growth_factor=None)
  TypeError: growth_factor is None; it takes a number
polycast.GradScaler(min_scale="x")
  TypeError: min_scale is 'x'; it takes a number
scaler.clip_grad_norm(optimizer, None)
  TypeError: max_norm is None; it takes a positive number
scaler.clip_grad_norm(optimizer, 1.0, "l2")
  TypeError: norm_type is 'l2'; it takes a positive number, or infinity
optimizer.step(torch.ones(()))
  TypeError: closure is tensor(1.); it takes a function that computes and returns the loss
scaler.scale(None)
  ValueError: outputs must be a Tensor or an iterable of Tensors, and are a NoneType; pass the loss
scaler.update(optimizer)
  TypeError: new_scale is SGD (
scaler.update("128")
  TypeError: new_scale is '128'; it takes a number, or a tensor of one element
polycast.GradScaler("cuad")
  ValueError: polycast has no device 'cuad' in its policy; it has
polycast.GradScaler(enabled="False")
  TypeError: enabled is 'False'; it takes True or False
polycast.GradScaler(skip_on_host="no")
  TypeError: skip_on_host is 'no'; it takes True or False
polycast.GradScaler(init_scale=8.0, min_scale=9.0, max_scale=16.0)
  ValueError: init_scale is 8.0, outside of min_scale=9.0 and max_scale=16.0; choose bounds that enclose it
polycast.GradScaler(init_scale=8.0, max_scale=7.0)
  ValueError: init_scale is 8.0, outside of min_scale={torch.finfo(torch.float32).tiny} and max_scale=7.0; choose
polycast.GradScaler(init_scale=8.0, min_scale=float("nan"), max_scale=9.0)
  ValueError: init_scale is 8.0, outside of min_scale=nan and max_scale=9.0; choose bounds that enclose it
polycast.GradScaler(min_scale=4.0, max_scale=2.0)
  ValueError: max_scale is 2.0, below min_scale=4.0; give one that is not smaller
polycast.GradScaler(init_scale=0.0)
  ValueError: init_scale is 0.0, outside of min_scale={torch.finfo(torch.float32).tiny} and max_scale=inf; choose
polycast.GradScaler(growth_factor=1.0)
  AssertionError: The growth factor must be > 1.0.
polycast.GradScaler(backoff_factor=1.0)
  AssertionError: The backoff factor must be < 1.0.
scaler.step(model)
  TypeError: a Linear {NO_OPTIMIZER}
scaler.unscale_(model)
  TypeError: a Linear {NO_OPTIMIZER}
scaler.skip_count(model)
  TypeError: a Linear {NO_OPTIMIZER}
scaler.step_together([optimizer])
  TypeError: a list {NO_OPTIMIZER}
scaler.step_together(optimizer, optimizer)
  ValueError: step_together was given one optimizer twice; name each once
scaler.clip_grad_norm(model.parameters(), 1.0)
  TypeError: a generator {NO_OPTIMIZER}
scaler.clip_grad_norm(1.0, optimizer)
  TypeError: a float {NO_OPTIMIZER}
scaler.step(optimizer), scaler.clip_grad_norm(optimizer, 1.0)
  RuntimeError: clip_grad_norm() is being called after step().
scaler.clip_grad_norm(optimizer, 1.0), scaler.scale(torch.ones(1)), scaler.clip_grad_norm(optimizer, 1.0)
  RuntimeError: unscale_() has already been called on this optimizer since the last update(). Call update() before the
scaler.unscale_(optimizer), scaler.scale(torch.ones(1)), scaler.clip_grad_norm(optimizer, 1.0)
  RuntimeError: unscale_() has already been called on this optimizer since the last update(). Call update() before the
polycast.GradScaler(growth_interval=1.5)
  TypeError: growth_interval is 1.5; it takes a whole number of steps
polycast.GradScaler(growth_interval=2000.0)
  TypeError: growth_interval is 2000.0; it takes a whole number of steps
scaler.set_growth_interval("2")
  TypeError: growth_interval is '2'; it takes a whole number of steps
scaler.load_state_dict(dict(scaler.state_dict(), growth_interval=1.5))
  TypeError: growth_interval is 1.5; it takes a whole number of steps
scaler.unscale_(half)
  ValueError: Attempting to unscale FP16 gradients. That of head is float16: keep the parameters in float32 and let
optimizer.zero_grad(), scaler.step(optimizer)
  AssertionError: No inf checks were recorded for this optimizer. No parameter of it had a gradient; call backward on
scaler.update()
  AssertionError: No inf checks were recorded prior to update. No optimizer that was given to step, unscale_
scaler.step(optimizer, closure=lambda: None)
  RuntimeError: Closure use is not currently supported if GradScaler is enabled.
polycast.GradScaler().clip_grad_norm(optimizer, 1.0)
  AssertionError: Attempted clip_grad_norm but _scale is None.
polycast.GradScaler().step(optimizer)
  AssertionError: Attempted step but _scale is None.
polycast.GradScaler().unscale_(optimizer)
  AssertionError: Attempted unscale_ but _scale is None.
polycast.GradScaler().update()
  AssertionError: Attempted update but _scale is None.
scaler.clip_grad_norm(optimizer, 0.0)
  ValueError: max_norm is 0.0; it takes a positive number
scaler.clip_grad_norm(optimizer, 1.0, float("nan"))
  ValueError: norm_type is nan; it takes a positive number, or infinity
polycast.GradScaler(enabled=False).clip_grad_norm(optimizer, -1.0)
  ValueError: max_norm is -1.0; it takes a positive number
scaler.load_state_dict("scaler.pt")
  TypeError: the state is 'scaler.pt', and no dict; load what GradScaler.state_dict() returned
scaler.load_state_dict({{"loss_scaler0": {{"loss_scale": 65536.0, "unskipped": 12}}}})
  ValueError: a state with ['loss_scaler0'] is not one of a gradient scaler; load what GradScaler.state_dict() returned,
scaler.skipped(), scaler.skip_count()
  RuntimeError: skipped() without an optimizer needs a scaler that has stepped one, and this one has stepped none; step
scaler.step(optimizer), scaler.unscale_(other), scaler.skip_count()
  RuntimeError: skip_count() without an optimizer needs a scaler that has stepped one, and this one has stepped SGD and
scaler.step(optimizer), scaler.unscale_(other), scaler.non_finite()
  RuntimeError: non_finite() without an optimizer needs a scaler that has stepped one, and this one has stepped SGD and
scaler.load_state_dict(optimizer.state_dict())
  ValueError: a state with ['param_groups', 'state'] is not one of a gradient scaler; load what GradScaler.state_dict()
""".splitlines()


@pytest.mark.parametrize(("call", "text"), list(zip(WRONG[::2], WRONG[1::2], strict=True)))
def test_what_is_wrong_is_named(call: str, text: str) -> None:
    optimizers = {"optimizer": sync_free(), "other": sync_free(), "half": sync_free(torch.float16)}
    names = {"scaler": started(), "model": nn.Linear(1, 1), **optimizers}
    assert sentence(lambda: eval(call, globals() | names)).startswith(text.strip())


def test_an_explicit_xpu_is_enabled() -> None:
    assert polycast.GradScaler("xpu").is_enabled()
    assert polycast.GradScaler(torch.device("xpu", 1)).is_enabled()


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu"), "cpu:0"])
def test_the_device_is_given_or_taken_from_the_first_outputs(device: str | torch.device | None) -> None:
    scaler, theirs = polycast.GradScaler(device), Scaler("cpu")
    outputs: Any = [torch.ones(1), (torch.full((1,), 2.0), [torch.full((1,), 3.0)])]
    assert scaler.scale(outputs) == theirs.scale(outputs)
    scaler.update(torch.tensor(8.0))  # which has to be on the scaler's device
    assert scaler.get_scale() == 8.0


@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda", 1)])
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
    scaler, optimizer = polycast.GradScaler(enabled=False), sync_free()
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
        ("for-loop", True, ["_unscale_grads_", "_maybe_opt_step"]),
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


def test_the_scale_may_be_made_early_on_a_device_given_as_text() -> None:
    scaler: Any = polycast.GradScaler()
    scaler._lazy_init_scale_growth_tracker("cpu")
    scaler.update(torch.tensor(4.0))
    assert scaler.get_scale() == 4.0
