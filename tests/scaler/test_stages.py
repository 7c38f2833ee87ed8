"""The stages of a gradient scaler: what torch refuses is refused with torch's texts, what else is wrong is named."""

from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.scaler.common import INF, KINDS, OPTIMIZERS, started

Call = Callable[[Any, Any], object]
# Without a sync-free optimizer the question is what torch's own scaler says of its for-loop.
THEIRS = {"sync-free": "for-loop", "fused": "fused", "for-loop": "for-loop"}
LIKE_TORCH: dict[str, Call] = {
    "unscale_ twice": lambda s, o: (s.unscale_(o), s.unscale_(o)),
    "unscale_ after step": lambda s, o: (s.step(o), s.unscale_(o)),
    "step twice": lambda s, o: (s.step(o), s.step(o)),
    "update without inf checks": lambda s, _: s.update(),
    "update twice": lambda s, o: (s.step(o), s.update(), s.update()),
    "unscale_, step, step": lambda s, o: (s.unscale_(o), s.step(o), s.step(o)),
    "closure": lambda s, o: s.step(o, closure=lambda: None),
    "closure after unscale_": lambda s, o: (s.unscale_(o), s.step(o, closure=lambda: None)),
    "two new scales": lambda s, _: s.update(torch.ones(2)),
    "a new scale with a gradient": lambda s, _: s.update(torch.ones(1, requires_grad=True)),
    "scale of a number": lambda s, _: s.scale(5),
    "an empty state": lambda s, _: s.load_state_dict({}),
    "a copy in the middle of an iteration": lambda s, o: (s.unscale_(o), s.__getstate__()),
    "no gradient: step": lambda s, o: (o.zero_grad(), s.step(o)),
    "no gradient: unscale_, step": lambda s, o: (o.zero_grad(), s.unscale_(o), s.step(o)),
    "no gradient: step, update": lambda s, o: (o.zero_grad(), s.step(o), s.update()),
}
BEFORE_SCALE: dict[str, Call] = {
    "step": lambda s, o: s.step(o),
    "unscale_": lambda s, o: s.unscale_(o),
    "update": lambda s, _: s.update(),
    "update to a scale": lambda s, _: s.update(2.0),
}
# Torch asks its fused optimizers for no gradient.
FUSED_STEPS = ("no gradient: step", "no gradient: unscale_, step")


def raised(call: Call, scaler: Any, optimizer: Any) -> tuple[type[Exception], str]:
    """Return the type and the text of what a call raises."""
    try:
        call(scaler, optimizer)
    except Exception as error:  # the comparison is the test
        return type(error), str(error)
    return Exception, "nothing"


def weight(grad: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    param = torch.ones(2, dtype=dtype, requires_grad=True)
    param.grad = torch.full_like(param, grad).detach()
    return param


@KINDS
@pytest.mark.parametrize("name", [*LIKE_TORCH, *BEFORE_SCALE])
def test_what_torch_refuses_is_refused_with_its_text(name: str, kind: str) -> None:
    call, scalers = (LIKE_TORCH | BEFORE_SCALE)[name], [polycast.GradScaler(), Scaler("cpu")]
    if name in LIKE_TORCH:
        scalers = list(map(started, scalers))
    found = raised(call, scalers[0], OPTIMIZERS[kind]([weight()]))
    wanted = raised(call, scalers[1], OPTIMIZERS[THEIRS[kind]]([weight()]))
    assert found[0] is wanted[0]
    assert found[1].startswith(wanted[1])
    assert (wanted[0] is Exception) == (name in FUSED_STEPS and kind == "fused")


def sync_free(dtype: torch.dtype = torch.float32) -> Any:
    return syncfree.SGD([("body", weight()), ("head", weight(dtype=dtype))], lr=0.5)


NO_OPTIMIZER = "was given for an optimizer; pass the optimizer itself, not its parameters, and each one by itself"
# Calls, and what they raise. The scaler has scaled, and the optimizer has gradients.
WRONG = f"""\
polycast.GradScaler(65536.0)
  TypeError: the device is 65536.0; give a text such as 'cpu', or a torch.device
polycast.GradScaler("cuad")
  ValueError: polycast has no device 'cuad' in its policy; it has
polycast.GradScaler(enabled="False")
  TypeError: enabled is 'False'; it takes True or False
polycast.GradScaler(report_skips="no")
  TypeError: report_skips is 'no'; it takes True or False
polycast.GradScaler(init_scale=8.0, min_scale=9.0, max_scale=16.0)
  ValueError: init_scale is 8.0, outside of min_scale=9.0 and max_scale=16.0; choose bounds that enclose it
polycast.GradScaler(init_scale=8.0, max_scale=7.0)
  ValueError: init_scale is 8.0, outside of min_scale={torch.finfo(torch.float32).tiny} and max_scale=7.0; choose
polycast.GradScaler(init_scale=8.0, min_scale=float("nan"), max_scale=9.0)
  ValueError: init_scale is 8.0, outside of min_scale=nan and max_scale=9.0; choose bounds that enclose it
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
scaler.unscale_(half)
  ValueError: Attempting to unscale FP16 gradients. That of head is float16: keep the parameters in float32 and let
optimizer.zero_grad(), scaler.step(optimizer)
  AssertionError: No inf checks were recorded for this optimizer. No parameter of it had a gradient; call backward on
scaler.update()
  AssertionError: No inf checks were recorded prior to update. No optimizer that was given to step, unscale_
scaler.step(optimizer, lambda: None)
  RuntimeError: Closure use is not currently supported if GradScaler is enabled.
scaler.unscale(torch.ones(2))
  TypeError: unscale was given one tensor, and takes a sequence of them; pass [tensor]
scaler.unscale([torch.ones(2), None])
  TypeError: tensors[1] is None, and no tensor; leave out what has no gradient
polycast.GradScaler().unscale([torch.ones(1)])
  AssertionError: Attempted unscale but _scale is None.
polycast.GradScaler().clip_grad_norm(optimizer, 1.0)
  AssertionError: Attempted clip_grad_norm but _scale is None.
scaler.load_state_dict(optimizer.state_dict())
  ValueError: a state with ['param_groups', 'state'] is not one of a gradient scaler; load what GradScaler.state_dict()
""".splitlines()


@pytest.mark.parametrize(("call", "text"), list(zip(WRONG[::2], WRONG[1::2], strict=True)))
def test_what_is_wrong_is_named(call: str, text: str) -> None:
    names = {"scaler": started(), "optimizer": sync_free(), "half": sync_free(torch.float16), "model": nn.Linear(1, 1)}
    error, message = raised(lambda *_: eval(call, globals() | names), None, None)
    assert f"{error.__name__}: {message}".startswith(text.strip())


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


@KINDS
def test_a_disabled_scaler_does_nothing_and_steps(kind: str) -> None:
    scaler, theirs = polycast.GradScaler(enabled=False), Scaler("cpu", enabled=False)
    param = weight(3.0)
    optimizer = syncfree.SGD([param], lr=0.5) if kind == "sync-free" else torch.optim.SGD([param], lr=0.5)
    loss = torch.ones(1)
    assert scaler.scale(loss) is scaler.unscale([loss])[0] is loss
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
    torch.testing.assert_close(scaler.clip_grad_norm(optimizer, 1.0, INF), torch.tensor(3.0))
    torch.testing.assert_close(param.grad, torch.ones(2))


def test_a_disabled_scaler_claims_nothing_of_gradients_that_it_did_not_look_at() -> None:
    """It skips no step, and looks where it is asked what is not finite."""
    scaler, optimizer = polycast.GradScaler(enabled=False), sync_free()
    optimizer.param_groups[0]["params"][1].grad[0] = INF
    assert scaler.non_finite(optimizer) == ["head"]
    scaler.step(optimizer)
    assert scaler.non_finite(optimizer) == ["head"]
    assert (scaler.skipped(optimizer).item(), scaler.skip_count(optimizer).item()) == (False, 0)
    assert scaler.step_count(optimizer) == 1
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
