"""What a gradient scaler refuses, in torch's words or by names of its own."""
# ruff: noqa: ARG005 -- all calls of the table take the same arguments

import re
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.scaler.common import NAN, Wrapper, started
from tests.support.process import python
from tests.support.recorded_errors import RecordedError


def weight(dtype: torch.dtype = torch.float32) -> Tensor:
    param = torch.ones(2, dtype=dtype, requires_grad=True)
    param.grad = torch.ones(2, dtype=dtype)
    return param


ONE = torch.ones(1)
GradScaler: Any = polycast.GradScaler
SkipAwareLR: Any = polycast.SkipAwareLR


class Given:
    """Optimizers that have gradients, one inside of a wrapper, and a model."""

    def __init__(self) -> None:
        self.optimizer, self.other = (syncfree.SGD([weight()], lr=0.5) for _ in range(2))
        self.half = syncfree.SGD([("body", weight()), ("head", weight(torch.float16))], lr=0.5)
        self.wrapped = Wrapper(self.optimizer)
        self.model = nn.Linear(1, 1)


# Calls of a scaler that has scaled, an optimizer, and more that is given.
CALLS: dict[str, Callable[[Any, Any, Any], object]] = {
    # Arguments of the constructor.
    "a number for the device": lambda s, o, it: GradScaler(2.0**10),
    "a text for init_scale": lambda s, o, it: GradScaler("cpu", "1024"),
    "None for growth_factor": lambda s, o, it: GradScaler(growth_factor=None),
    "a text for min_scale": lambda s, o, it: GradScaler(min_scale="x"),
    "a text for enabled": lambda s, o, it: GradScaler(enabled="False"),
    "a text for skip_on_host": lambda s, o, it: GradScaler(skip_on_host="no"),
    "a part of a step for growth_interval": lambda s, o, it: GradScaler(growth_interval=1.5),
    "a growth_factor of 1": lambda s, o, it: GradScaler(growth_factor=1.0),
    "a backoff_factor of 1": lambda s, o, it: GradScaler(backoff_factor=1.0),
    "init_scale below min_scale": lambda s, o, it: GradScaler(init_scale=8.0, min_scale=9.0, max_scale=16.0),
    "init_scale above max_scale": lambda s, o, it: GradScaler(init_scale=8.0, max_scale=7.0),
    "init_scale of 0": lambda s, o, it: GradScaler(init_scale=0.0),
    "a NaN for min_scale": lambda s, o, it: GradScaler(init_scale=8.0, min_scale=NAN, max_scale=9.0),
    "max_scale below min_scale": lambda s, o, it: GradScaler(min_scale=4.0, max_scale=2.0),
    # What is scaled, and new scales.
    "outputs of text": lambda s, o, it: s.scale("x"),
    "outputs of None": lambda s, o, it: s.scale(None),
    "outputs in a dict in a list": lambda s, o, it: s.scale([ONE, {"loss": ONE}]),
    "a text for a new scale": lambda s, o, it: s.update("128"),
    "a text for a new interval": lambda s, o, it: s.set_growth_interval("2"),
    # Numbers of clipping.
    "None for max_norm": lambda s, o, it: s.clip_grad_norm(o, None),
    "a text for norm_type": lambda s, o, it: s.clip_grad_norm(o, 1.0, "l2"),
    "0 for max_norm": lambda s, o, it: s.clip_grad_norm(o, 0.0),
    "NaN for norm_type": lambda s, o, it: s.clip_grad_norm(o, 1.0, NAN),
    "-1 for max_norm, disabled": lambda s, o, it: GradScaler(enabled=False).clip_grad_norm(o, -1.0),
    # What is no optimizer.
    "step of a model": lambda s, o, it: s.step(it.model),
    "unscale_ of a model": lambda s, o, it: s.unscale_(it.model),
    "skip_count of a model": lambda s, o, it: s.skip_count(it.model),
    "step_together of a list": lambda s, o, it: s.step_together([o]),
    "clip_grad_norm of parameters": lambda s, o, it: s.clip_grad_norm(it.model.parameters(), 1.0),
    # The order of calls.
    "an optimizer twice": lambda s, o, it: s.step_together(o, o),
    "an optimizer and its wrapper": lambda s, o, it: s.step_together(it.wrapped, o),
    "unscale_ of both": lambda s, o, it: (s.unscale_(it.wrapped), s.unscale_(o)),
    "step of both": lambda s, o, it: (s.step_together(it.wrapped), s.step(o)),
    "step of what steps by the scaler": lambda s, o, it: s.step(Wrapper(o, s)),
    "clip_grad_norm after step": lambda s, o, it: (s.step(o), s.clip_grad_norm(o, 1.0)),
    "clip_grad_norm in a later batch": lambda s, o, it: (s.unscale_(o), s.scale(ONE), s.clip_grad_norm(o, 1.0)),
    "clip_grad_norm after a dropped batch": lambda s, o, it: (
        s.clip_grad_norm(o, 1.0),
        s.scale(ONE),
        s.clip_grad_norm(o, 1.0),
    ),
    "step of float16 that a hook sees": lambda s, o, it: (
        it.half.register_step_pre_hook(lambda *_: None),
        s.clip_grad_norm(it.half, 0.5),
        s.step(it.half),
    ),
    "unscale_ of float16": lambda s, o, it: s.unscale_(it.half),
    "step without gradients": lambda s, o, it: (o.zero_grad(), s.step(o)),
    "update without steps": lambda s, o, it: s.update(),
    "a closure by its name": lambda s, o, it: s.step(o, closure=lambda: None),
    "clip_grad_norm before scale": lambda s, o, it: GradScaler().clip_grad_norm(o, 1.0),
    "step before scale": lambda s, o, it: GradScaler().step(o),
    "unscale_ before scale": lambda s, o, it: GradScaler().unscale_(o),
    "update before scale": lambda s, o, it: GradScaler().update(),
    # States, and questions without an optimizer.
    "a path for a state": lambda s, o, it: s.load_state_dict("scaler.pt"),
    "the state of Apex": lambda s, o, it: s.load_state_dict({"loss_scaler0": {"loss_scale": 65536.0}}),
    "the state of an optimizer": lambda s, o, it: s.load_state_dict(o.state_dict()),
    "a part of a step in a state": lambda s, o, it: s.load_state_dict({**s.state_dict(), "growth_interval": 1.5}),
    "skipped of none": lambda s, o, it: s.skipped(),
    "skip_count of two": lambda s, o, it: (s.step(o), s.unscale_(it.other), s.skip_count()),
    "non_finite of two": lambda s, o, it: (s.step(o), s.unscale_(it.other), s.non_finite()),
    # Schedules.
    "a schedule of torch's scaler": lambda s, o, it: SkipAwareLR(o, [], Scaler("cpu")),
    "a schedule of too few functions": lambda s, o, it: SkipAwareLR(o, [], s),
    "no state of a schedule": lambda s, o, it: SkipAwareLR(o, lambda n: 0.5**n, s).load_state_dict({}),
}


@pytest.mark.parametrize("title", CALLS)
def test_what_is_wrong_is_named(title: str, recorded_error: RecordedError) -> None:
    given = Given()
    with recorded_error():
        CALLS[title](started(), given.optimizer, given)


# What torch refuses of the order of calls is in the random programs.
TORCHS: dict[str, Callable[[Any], object]] = {
    "two new scales": lambda scaler: scaler.update(torch.ones(2)),
    "a new scale with a gradient": lambda scaler: scaler.update(torch.ones(1, requires_grad=True)),
    "scale of a number": lambda scaler: scaler.scale(5),
    "an empty state": lambda scaler: scaler.load_state_dict({}),
}


@pytest.mark.parametrize("title", TORCHS)
def test_what_torch_refuses_of_arguments_is_refused_with_its_text(title: str) -> None:
    with pytest.raises((AssertionError, RuntimeError, ValueError)) as theirs:
        TORCHS[title](started(Scaler("cpu")))
    with pytest.raises(theirs.type, match="^" + re.escape(str(theirs.value))):
        TORCHS[title](started())


@pytest.mark.slow
def test_what_is_wrong_is_raised_without_assertions_too() -> None:
    code = """
import torch, polycast
scaler = polycast.GradScaler()
scaler.scale(torch.ones(1))
for call in (scaler.update, lambda: scaler.step(polycast.syncfree.SGD([torch.ones(1)]))):
    try:
        call()
    except AssertionError as error:
        print(str(error)[:25], scaler._get_growth_tracker())
"""
    assert python(code, PYTHONOPTIMIZE="1").splitlines() == ["No inf checks were record 0"] * 2
