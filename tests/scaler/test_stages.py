"""The stages of a gradient scaler: what torch refuses, GradScaler refuses with torch's texts; and the null object."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor
from torch.amp.grad_scaler import GradScaler as Scaler

INF = float("inf")
Call = Callable[[Any, Any], object]

OPTIMIZERS: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    "sync-free": lambda params: syncfree.SGD(params, lr=0.5),
    "fused": lambda params: torch.optim.SGD(params, lr=0.5, fused=True),
    "for-loop": lambda params: torch.optim.SGD(params, lr=0.5, foreach=False, fused=False),
}
# Without a sync-free optimizer the question is what torch's own scaler says of its for-loop.
THEIRS = {"sync-free": "for-loop", "fused": "fused", "for-loop": "for-loop"}

SEQUENCES: dict[str, Call] = {
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
    "nothing wrong": lambda s, o: (s.unscale_(o), s.step(o), s.update(), s.step(o), s.update(4.0), s.get_scale()),
}
EARLY: dict[str, Call] = {
    "step": lambda s, o: s.step(o),
    "unscale_": lambda s, o: s.unscale_(o),
    "update": lambda s, _: s.update(),
    "update to a scale": lambda s, _: s.update(2.0),
}
GRADLESS: dict[str, Call] = {
    "step": lambda s, o: s.step(o),
    "unscale_, step": lambda s, o: (s.unscale_(o), s.step(o)),
    "step, update": lambda s, o: (s.step(o), s.update()),
}


def outcome(call: Call, scaler: Any, optimizer: Any) -> object:
    """What a call returns, or the type and the text of what it raises."""
    try:
        return call(scaler, optimizer)
    except Exception as error:  # the comparison is the test
        return type(error), str(error)


def weight(grad: float | None = 1.0) -> Tensor:
    param = torch.ones(2, requires_grad=True)
    param.grad = None if grad is None else torch.full((2,), grad)
    return param


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("name", SEQUENCES)
def test_the_stages_are_torchs(name: str, kind: str) -> None:
    ours, theirs = polycast.GradScaler(), Scaler("cpu")
    for scaler in (ours, theirs):
        scaler.scale(torch.ones(1))
    found = outcome(SEQUENCES[name], ours, OPTIMIZERS[kind]([weight()]))
    wanted = outcome(SEQUENCES[name], theirs, OPTIMIZERS[THEIRS[kind]]([weight()]))
    assert isinstance(found, tuple)
    assert isinstance(wanted, tuple)
    assert found[0] == wanted[0]
    assert str(found[1]).startswith(str(wanted[1]))
    assert (found[0] in (RuntimeError, AssertionError, ValueError)) is (name != "nothing wrong")


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("name", EARLY)
def test_nothing_comes_before_scale(name: str, kind: str) -> None:
    found = outcome(EARLY[name], polycast.GradScaler(), OPTIMIZERS[kind]([weight()]))
    assert found == outcome(EARLY[name], Scaler("cpu"), OPTIMIZERS[THEIRS[kind]]([weight()]))
    function = name.split()[0]
    assert isinstance(found, tuple)
    assert str(found[1]).startswith(f"Attempted {function} but _scale is None.")


@pytest.mark.parametrize("call", ["clip_grad_norm", "unscale"])
def test_neither_do_the_additions(call: str) -> None:
    scaler = polycast.GradScaler()
    arguments: tuple[Any, ...] = ([torch.ones(1)],) if call == "unscale" else (syncfree.SGD([weight()]), 1.0)
    with pytest.raises(AssertionError, match=f"^Attempted {call} but _scale is None"):
        getattr(scaler, call)(*arguments)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("name", GRADLESS)
def test_without_a_gradient(name: str, kind: str) -> None:
    ours, theirs = polycast.GradScaler(), Scaler("cpu")
    for scaler in (ours, theirs):
        scaler.scale(torch.ones(1))
    found = outcome(GRADLESS[name], ours, OPTIMIZERS[kind]([weight(None)]))
    wanted = outcome(GRADLESS[name], theirs, OPTIMIZERS[THEIRS[kind]]([weight(None)]))
    assert str(found)[:60] == str(wanted)[:60]


@pytest.mark.parametrize("options", [{"growth_factor": 1.0}, {"backoff_factor": 1.0}, {"growth_factor": 0.5}])
def test_the_factors_are_checked_as_torch_checks_them(options: dict[str, Any]) -> None:
    with pytest.raises(AssertionError) as theirs:
        Scaler("cpu", **options)
    with pytest.raises(AssertionError) as ours:
        polycast.GradScaler(**options)
    assert str(ours.value) == str(theirs.value)
    assert not polycast.GradScaler(**options, enabled=False).is_enabled()


def test_a_closure_by_position_is_refused_too() -> None:
    scaler, optimizer = polycast.GradScaler(), syncfree.SGD([weight()])
    scaler.scale(torch.ones(1))
    with pytest.raises(RuntimeError, match=r"^Closure use is not currently supported if GradScaler is enabled\.$"):
        scaler.step(optimizer, lambda: None)


def test_outputs_may_be_nested() -> None:
    ours, theirs = polycast.GradScaler(), Scaler("cpu")
    outputs: Any = [torch.ones(1), (torch.full((1,), 2.0), [torch.full((1,), 3.0)])]
    assert ours.scale(outputs) == theirs.scale(outputs)


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu"), "cpu:0"])
def test_the_device_is_given_or_taken_from_the_first_outputs(device: str | torch.device | None) -> None:
    scaler = polycast.GradScaler(device)
    assert scaler.scale(torch.ones(1)).item() == 2.0**16
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


def same_after(scaler: polycast.GradScaler) -> list[polycast.GradScaler]:
    return [scaler, copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))]


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("copied", range(3), ids=["itself", "deepcopy", "pickle"])
def test_a_disabled_scaler_does_nothing_and_steps(kind: str, copied: int) -> None:
    scaler, theirs = same_after(polycast.GradScaler(enabled=False))[copied], Scaler("cpu", enabled=False)
    assert isinstance(scaler, Scaler)
    assert not scaler.is_enabled()
    param = weight(3.0)
    optimizer = OPTIMIZERS[kind]([param])
    loss = torch.ones(1)
    assert scaler.scale(loss) is loss
    assert scaler.unscale([loss])[0] is loss
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer, closure=lambda: 7.0) == 7.0
    assert param.tolist() == [-0.5, -0.5]
    scaler.step_together(optimizer)
    assert param.tolist() == [-2.0, -2.0]
    scaler.update()
    scaler.update(3.0)
    for question in ("is_enabled", "get_scale", "_get_growth_tracker", "state_dict"):
        assert getattr(scaler, question)() == getattr(theirs, question)()
    scaler.load_state_dict({"scale": 3.0})
    assert scaler.state_dict() == {}


def test_a_disabled_scaler_clips_and_knows_of_no_skips() -> None:
    scaler, param = polycast.GradScaler(enabled=False), weight(3.0)
    optimizer = syncfree.SGD([param], lr=0.5)
    torch.testing.assert_close(scaler.clip_grad_norm(optimizer, 1.0, INF), torch.tensor(3.0))
    torch.testing.assert_close(param.grad, torch.ones(2))
    scaler.step(optimizer)
    assert not scaler.skipped(optimizer).item()
    assert scaler.skip_count(optimizer).item() == 0
    assert scaler.non_finite(optimizer) == []


CALLS: dict[str, Callable[[polycast.GradScaler, Any], object]] = {
    "step": lambda scaler, other: scaler.step(other),
    "unscale_": lambda scaler, other: scaler.unscale_(other),
    "clip_grad_norm": lambda scaler, other: scaler.clip_grad_norm(other, 1.0),
    "step_together": lambda scaler, other: scaler.step_together([other]),  # type: ignore[arg-type]
    "skip_count": lambda scaler, other: scaler.skip_count(other),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_optimizer_is_named(call: str) -> None:
    scaler = polycast.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    name = "list" if call == "step_together" else "Linear"
    with pytest.raises(TypeError, match=f"^a {name} was given for an optimizer; pass the optimizer itself, not its"):
        CALLS[call](scaler, torch.nn.Linear(1, 1))
