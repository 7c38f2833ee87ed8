"""Parameters are gathered once in an iteration, and anew where a gradient is another one since."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from polycast import GradScaler, syncfree
from torch import Tensor, nn

from tests.scaler.common import LOOKS, started
from tests.support.optimizers import parameters, same_bits, set_grads


class Counted(nn.Parameter):
    """A parameter that counts how often Python asks for its gradient."""

    asked = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "grad":
            self.asked += 1
        return super().__getattribute__(name)


@pytest.mark.parametrize("looks", [["step"], ["clip_grad_norm"], ["unscale_"], ["unscale_", "clip_grad_norm"]], ids=str)
def test_an_iteration_gathers_once(looks: list[str]) -> None:
    params: list[Any] = [Counted(tensor.detach()) for tensor in parameters((3,), (2, 2), (4,))]
    optimizer, scaler = syncfree.AdamW([{"params": params[:2]}, {"params": params[2:]}]), started()
    for number in range(3):
        set_grads(params, number)
        scaler.scale(params[0].detach())
        for param in params:
            param.asked = 0
        for look in looks if number else ():  # the state is made in the first step
            LOOKS[look](scaler, optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert not number or [param.asked for param in params] == [1, 1, 1]


def added() -> Tensor:
    param = torch.ones(2, requires_grad=True)
    param.grad = torch.ones(2)
    return param


CHANGES: dict[str, Callable[[Any, Any], None]] = {
    "another gradient": lambda _, params: setattr(params[0], "grad", torch.full_like(params[0], 7.0)),
    "no gradient": lambda _, params: setattr(params[1], "grad", None),
    "a first gradient": lambda _, params: setattr(params[2], "grad", torch.ones_like(params[2])),
    "other values": lambda _, params: params[0].grad.mul_(2),
    "another group": lambda it, params: it.add_param_group({"params": [params[3]]}),
    "another parameter": lambda it, params: it.param_groups[0]["params"].__setitem__(0, params[3]),
}


@pytest.mark.parametrize("title", CHANGES)
def test_a_change_between_look_and_step_is_seen(title: str) -> None:
    """The step is that of the gradients as they are, whatever was gathered before."""
    stepped = []
    for look in (True, False):
        params = [*parameters((3,), (2, 2), (4,)), added()]
        optimizer, scaler = syncfree.SGD(params[:3], lr=0.1, momentum=0.9), started()
        set_grads(params[:2], 0)
        if look:
            scaler.clip_grad_norm(optimizer, float("inf"))
        CHANGES[title](optimizer, params)
        if look:
            scaler.step(optimizer)
        else:
            optimizer.step(grad_scale=torch.tensor(scaler.get_scale()))
        stepped.append(params)
    assert all(map(same_bits, *stepped))


def failed(scaler: Any, optimizer: Any) -> None:
    optimizer.param_groups[0]["weight_decay"] = "much"
    with pytest.raises(TypeError):
        scaler.step(optimizer)


# What may be done with a gradient before, or while, zero_grad lets go of it.
USES: dict[str, Callable[[Any, Any], object]] = {
    "dropped": lambda scaler, it: (scaler.unscale_(it), scaler.update()),
    "clipped": lambda scaler, it: (scaler.clip_grad_norm(it, 1.0), scaler.step(it)),
    "failed": failed,
    "gone within a closure": lambda scaler, it: scaler.step(it, it.zero_grad),
    "gone within a hook": lambda scaler, it: (
        it.register_step_post_hook(lambda optimizer, *_: optimizer.zero_grad()),
        scaler.step(it),
    ),
    "asked of a disabled scaler": lambda _, it: GradScaler("cpu", enabled=False).non_finite(it),
}


@pytest.mark.parametrize(
    ("use", "library"),
    [*((use, syncfree) for use in USES), ("clipped", torch.optim), ("gone within a closure", torch.optim)],
)
def test_no_gradient_is_kept(use: str, library: Any) -> None:
    """A gradient that was checked is freed by zero_grad, as in torch."""
    (weight,) = parameters((3,))
    optimizer, scaler = library.SGD([weight], lr=0.1), started()
    set_grads([weight], 0)
    kept = weakref.ref(weight.grad)
    USES[use](scaler, optimizer)
    if "within" not in use:
        optimizer.zero_grad()
    assert weight.grad is None
    assert kept() is None
