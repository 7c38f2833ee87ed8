"""What a gradient scaler refuses, in torch's words or by names of its own."""

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


class Given:
    """A scaler that has scaled, and optimizers that have gradients."""

    def __init__(self) -> None:
        self.scaler = started()
        self.optimizer, self.other = (syncfree.SGD([weight()], lr=0.5) for _ in range(2))
        self.half = syncfree.SGD([("body", weight()), ("head", weight(torch.float16))], lr=0.5)
        self.wrapped = Wrapper(self.optimizer)
        self.model = nn.Linear(1, 1)


CALLS: dict[str, Callable[[Any], object]] = {
    # Arguments of the constructor.
    "a number for the device": lambda _: polycast.GradScaler(2.0**10),  # type: ignore[arg-type]
    "a text for init_scale": lambda _: polycast.GradScaler("cpu", "1024"),  # type: ignore[arg-type]
    "None for growth_factor": lambda _: polycast.GradScaler(growth_factor=None),  # type: ignore[arg-type]
    "a text for min_scale": lambda _: polycast.GradScaler(min_scale="x"),  # type: ignore[arg-type]
    "a text for enabled": lambda _: polycast.GradScaler(enabled="False"),  # type: ignore[arg-type]
    "a text for skip_on_host": lambda _: polycast.GradScaler(skip_on_host="no"),  # type: ignore[arg-type]
    "a part of a step for growth_interval": lambda _: polycast.GradScaler(growth_interval=1.5),  # type: ignore[arg-type]
    "a growth_factor of 1": lambda _: polycast.GradScaler(growth_factor=1.0),
    "a backoff_factor of 1": lambda _: polycast.GradScaler(backoff_factor=1.0),
    "init_scale below min_scale": lambda _: polycast.GradScaler(init_scale=8.0, min_scale=9.0, max_scale=16.0),
    "init_scale above max_scale": lambda _: polycast.GradScaler(init_scale=8.0, max_scale=7.0),
    "init_scale of 0": lambda _: polycast.GradScaler(init_scale=0.0),
    "a NaN for min_scale": lambda _: polycast.GradScaler(init_scale=8.0, min_scale=NAN, max_scale=9.0),
    "max_scale below min_scale": lambda _: polycast.GradScaler(min_scale=4.0, max_scale=2.0),
    # What is scaled, and new scales.
    "outputs of text": lambda it: it.scaler.scale("x"),
    "outputs of None": lambda it: it.scaler.scale(None),
    "outputs in a dict in a list": lambda it: it.scaler.scale([torch.ones(1), {"loss": torch.ones(1)}]),
    "a text for a new scale": lambda it: it.scaler.update("128"),
    "a text for a new interval": lambda it: it.scaler.set_growth_interval("2"),
    # Numbers of clipping.
    "None for max_norm": lambda it: it.scaler.clip_grad_norm(it.optimizer, None),
    "a text for norm_type": lambda it: it.scaler.clip_grad_norm(it.optimizer, 1.0, "l2"),
    "0 for max_norm": lambda it: it.scaler.clip_grad_norm(it.optimizer, 0.0),
    "NaN for norm_type": lambda it: it.scaler.clip_grad_norm(it.optimizer, 1.0, NAN),
    "-1 for max_norm, disabled": lambda it: polycast.GradScaler(enabled=False).clip_grad_norm(it.optimizer, -1.0),
    # What is no optimizer.
    "step of a model": lambda it: it.scaler.step(it.model),
    "unscale_ of a model": lambda it: it.scaler.unscale_(it.model),
    "skip_count of a model": lambda it: it.scaler.skip_count(it.model),
    "step_together of a list": lambda it: it.scaler.step_together([it.optimizer]),
    "clip_grad_norm of parameters": lambda it: it.scaler.clip_grad_norm(it.model.parameters(), 1.0),
    # The order of calls.
    "an optimizer twice": lambda it: it.scaler.step_together(it.optimizer, it.optimizer),
    "an optimizer and its wrapper": lambda it: it.scaler.step_together(it.wrapped, it.optimizer),
    "unscale_ of both": lambda it: (it.scaler.unscale_(it.wrapped), it.scaler.unscale_(it.optimizer)),
    "step of both": lambda it: (it.scaler.step_together(it.wrapped), it.scaler.step(it.optimizer)),
    "step of what steps by the scaler": lambda it: it.scaler.step(Wrapper(it.optimizer, it.scaler)),
    "clip_grad_norm after step": lambda it: (it.scaler.step(it.optimizer), it.scaler.clip_grad_norm(it.optimizer, 1.0)),
    "clip_grad_norm in a later batch": lambda it: (
        it.scaler.unscale_(it.optimizer),
        it.scaler.scale(torch.ones(1)),
        it.scaler.clip_grad_norm(it.optimizer, 1.0),
    ),
    "unscale_ of float16": lambda it: it.scaler.unscale_(it.half),
    "step without gradients": lambda it: (it.optimizer.zero_grad(), it.scaler.step(it.optimizer)),
    "update without steps": lambda it: it.scaler.update(),
    "a closure by its name": lambda it: it.scaler.step(it.optimizer, closure=lambda: None),
    "clip_grad_norm before scale": lambda it: polycast.GradScaler().clip_grad_norm(it.optimizer, 1.0),
    "step before scale": lambda it: polycast.GradScaler().step(it.optimizer),
    "unscale_ before scale": lambda it: polycast.GradScaler().unscale_(it.optimizer),
    "update before scale": lambda _: polycast.GradScaler().update(),
    # States, and questions without an optimizer.
    "a path for a state": lambda it: it.scaler.load_state_dict("scaler.pt"),
    "the state of Apex": lambda it: it.scaler.load_state_dict({"loss_scaler0": {"loss_scale": 65536.0}}),
    "the state of an optimizer": lambda it: it.scaler.load_state_dict(it.optimizer.state_dict()),
    "a part of a step in a state": lambda it: it.scaler.load_state_dict(
        {**it.scaler.state_dict(), "growth_interval": 1.5}
    ),
    "skipped of none": lambda it: it.scaler.skipped(),
    "skip_count of two": lambda it: (
        it.scaler.step(it.optimizer),
        it.scaler.unscale_(it.other),
        it.scaler.skip_count(),
    ),
    "non_finite of two": lambda it: (
        it.scaler.step(it.optimizer),
        it.scaler.unscale_(it.other),
        it.scaler.non_finite(),
    ),
    # Schedules.
    "a schedule of torch's scaler": lambda it: polycast.SkipAwareLR(it.optimizer, lambda n: 0.5**n, Scaler("cpu")),  # type: ignore[arg-type]
    "a schedule of too few functions": lambda it: polycast.SkipAwareLR(it.optimizer, [], it.scaler),
    "no state of a schedule": lambda it: polycast.SkipAwareLR(
        it.optimizer, lambda n: 0.5**n, it.scaler
    ).load_state_dict({}),
}


@pytest.mark.parametrize("title", CALLS)
def test_what_is_wrong_is_named(title: str, recorded_error: RecordedError) -> None:
    given = Given()
    with recorded_error():
        CALLS[title](given)


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
    found = []
    for scaler in (started(), started(Scaler("cpu"))):
        with pytest.raises((AssertionError, RuntimeError, ValueError)) as caught:
            call(scaler)
        found.append((caught.type, str(caught.value)))
    assert found[0][0] is found[1][0]
    assert found[0][1].startswith(found[1][1])


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
