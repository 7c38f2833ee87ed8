"""The errors of a gradient scaler, with PyTorch's wording where PyTorch raises the same error."""
# ruff: noqa: ARG005 -- all calls of the table take the same arguments

from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.optim import SGD

from tests.scaler.common import INF, NAN, Wrapper, started
from tests.support.recorded_errors import RecordedError


def weight(dtype: torch.dtype = torch.float32) -> Tensor:
    param = torch.ones(2, dtype=dtype, requires_grad=True)
    param.grad = torch.ones(2, dtype=dtype)
    return param


ONE = torch.ones(1)
GradScaler: Any = polycast.GradScaler
SkipAwareLR: Any = polycast.SkipAwareLR


class Given:
    """Optimizers with gradients, one of them in a wrapper, and a model."""

    def __init__(self) -> None:
        self.optimizer, self.other = (syncfree.SGD([weight()], lr=0.5) for _ in range(2))
        self.half = syncfree.SGD([("body", weight()), ("head", weight(torch.float16))], lr=0.5)
        self.wrapped = Wrapper(self.optimizer)
        self.model = nn.Linear(1, 1)


# Each call raises. Its arguments are a scaler that has scaled a loss, its optimizer, and a `Given`.
CALLS: dict[str, Callable[[Any, Any, Any], object]] = {
    # The constructor raises for these arguments.
    "a number for the device": lambda s, o, it: GradScaler(2.0**10),
    "a string for init_scale": lambda s, o, it: GradScaler("cpu", "1024"),
    "init_scale below min_scale": lambda s, o, it: GradScaler(init_scale=8.0, min_scale=9.0, max_scale=16.0),
    "init_scale above max_scale": lambda s, o, it: GradScaler(init_scale=8.0, max_scale=7.0),
    "init_scale of 0": lambda s, o, it: GradScaler(init_scale=0.0),
    "an infinity for init_scale": lambda s, o, it: GradScaler(init_scale=INF),
    "a NaN for min_scale": lambda s, o, it: GradScaler(init_scale=8.0, min_scale=NAN, max_scale=9.0),
    "a NaN for max_scale": lambda s, o, it: GradScaler(init_scale=8.0, max_scale=NAN),
    # `update` raises for these scales.
    "two new scales": lambda s, o, it: s.update(torch.ones(2)),
    "a new scale with a gradient": lambda s, o, it: s.update(torch.ones(1, requires_grad=True)),
    "a NaN for a new scale": lambda s, o, it: s.update(NAN),
    "a string for a new scale": lambda s, o, it: s.update("128"),
    # `clip_grad_norm` raises for these arguments.
    "a string for norm_type": lambda s, o, it: s.clip_grad_norm(o, 1.0, "l2"),
    "3 for norm_type": lambda s, o, it: s.clip_grad_norm(o, 1.0, 3),
    "parameters for the optimizer": lambda s, o, it: s.clip_grad_norm(o.param_groups[0]["params"], 1.0),
    "-1 for max_norm, disabled": lambda s, o, it: GradScaler(enabled=False).clip_grad_norm(o, -1.0),
    # These sequences of calls are invalid.
    "an optimizer and its wrapper": lambda s, o, it: s.step_together(it.wrapped, o),
    "clip_grad_norm after step": lambda s, o, it: (s.step(o), s.clip_grad_norm(o, 1.0)),
    "a second clip_grad_norm": lambda s, o, it: (s.clip_grad_norm(o, 1.0), s.scale(ONE), s.clip_grad_norm(o, 1.0)),
    "step of float16 that a hook sees": lambda s, o, it: (
        it.half.register_step_pre_hook(lambda *_: None),
        s.clip_grad_norm(it.half, 0.5),
        s.step(it.half),
    ),
    "unscale_ of float16": lambda s, o, it: s.unscale_(it.half),
    "step without gradients": lambda s, o, it: (o.zero_grad(), s.step(o)),
    "update without steps": lambda s, o, it: s.update(),
    "update after a step of nothing": lambda s, o, it: (s.step_together(SGD([ONE.clone()], fused=True)), s.update()),
    "a closure by its name": lambda s, o, it: s.step(o, closure=lambda: None),
    "step before scale": lambda s, o, it: GradScaler().step(o),
    "update before scale": lambda s, o, it: GradScaler().update(),
    # `load_state_dict` raises for these states.
    "an empty state": lambda s, o, it: s.load_state_dict({}),
    "a path for a state": lambda s, o, it: s.load_state_dict("scaler.pt"),
    "the state of Apex": lambda s, o, it: s.load_state_dict({"loss_scaler0": {"loss_scale": 65536.0}}),
    "a negative scale in a state": lambda s, o, it: s.load_state_dict({**s.state_dict(), "scale": -4.0}),
    # `SkipAwareLR` raises for these functions.
    "a schedule with a missing function": lambda s, o, it: SkipAwareLR(o, [], s),
}


@pytest.mark.parametrize("title", CALLS)
def test_an_error_names_the_argument(title: str, recorded_error: RecordedError) -> None:
    given = Given()
    with recorded_error():
        CALLS[title](started(), given.optimizer, given)
