"""Parameters are gathered once in an iteration, and anew where a gradient is another one since."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from polycast import GradScaler, syncfree
from torch import Tensor, nn

from tests.scaler.common import started
from tests.support.optimizers import parameters, same_bits, set_grads


class Counted(nn.Parameter):
    """A parameter that counts how often Python asks for its gradient."""

    asked = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "grad":
            self.asked += 1
        return super().__getattribute__(name)


def counted(*shapes: tuple[int, ...]) -> list[Any]:
    return [Counted(tensor.detach()) for tensor in parameters(*shapes)]


LOOKS: dict[str, Callable[[Any, Any], object]] = {
    "step": lambda *_: None,
    "clip_grad_norm": lambda scaler, optimizer: scaler.clip_grad_norm(optimizer, 0.5),
    "unscale_": lambda scaler, optimizer: scaler.unscale_(optimizer),
    "both": lambda scaler, optimizer: (scaler.unscale_(optimizer), scaler.clip_grad_norm(optimizer, 0.5)),
}


@pytest.mark.parametrize("look", LOOKS)
def test_an_iteration_gathers_once(look: str) -> None:
    params = counted((3,), (2, 2), (4,))
    optimizer, scaler = syncfree.AdamW([{"params": params[:2]}, {"params": params[2:]}]), started()
    for number in range(3):
        set_grads(params, number)
        scaler.scale(params[0].detach())
        if not number:  # the state is made in the first step
            scaler.step(optimizer)
            scaler.update()
        for param in params:
            param.asked = 0
        LOOKS[look](scaler, optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert [param.asked for param in params] == [1, 1, 1]


def set_grad(index: int, grad: Callable[[Tensor], Tensor | None]) -> Callable[[Any, list[Tensor]], None]:
    def change(_: Any, params: list[Tensor]) -> None:
        params[index].grad = grad(params[index])

    return change


def added(optimizer: Any, params: list[Tensor], place: Callable[[Any, Tensor], None]) -> None:
    params.append(torch.ones(2, requires_grad=True))
    params[-1].grad = torch.ones(2)
    place(optimizer, params[-1])


CHANGES: dict[str, Callable[[Any, list[Tensor]], None]] = {
    "another gradient": set_grad(0, lambda param: torch.full_like(param, 7.0)),
    "no gradient": set_grad(1, lambda _: None),
    "a first gradient": set_grad(2, torch.ones_like),
    "other values": set_grad(0, lambda param: param.grad.mul_(2)),  # type: ignore[union-attr]
    "another group": lambda optimizer, params: added(
        optimizer, params, lambda it, param: it.add_param_group({"params": [param]})
    ),
    "another parameter": lambda optimizer, params: added(
        optimizer, params, lambda it, param: it.param_groups[0]["params"].__setitem__(0, param)
    ),
}


@pytest.mark.parametrize("title", CHANGES)
def test_a_change_between_look_and_step_is_seen(title: str) -> None:
    """The step is that of the gradients as they are, whatever was gathered before."""
    stepped = []
    for look in (True, False):
        params = parameters((3,), (2, 2), (4,))
        optimizer, scaler = syncfree.SGD(params, lr=0.1, momentum=0.9), started()
        set_grads(params[:2], 0)
        if look:
            scaler.scale(params[0].detach())
            scaler.clip_grad_norm(optimizer, float("inf"))
        CHANGES[title](optimizer, params)
        if look:
            scaler.step(optimizer)
        else:
            optimizer.step(grad_scale=torch.tensor(scaler.get_scale()))
        stepped.append(params)
    assert all(map(same_bits, *stepped))


def dropped(scaler: Any, optimizer: Any) -> None:
    scaler.unscale_(optimizer)
    scaler.update()
    optimizer.zero_grad()


def clipped(scaler: Any, optimizer: Any) -> None:
    scaler.clip_grad_norm(optimizer, 1.0)
    scaler.step(optimizer)
    optimizer.zero_grad()


def failed(scaler: Any, optimizer: Any) -> None:
    optimizer.param_groups[0]["weight_decay"] = "much"
    with pytest.raises(TypeError):
        scaler.step(optimizer)
    optimizer.zero_grad()


def within_a_closure(scaler: Any, optimizer: Any) -> None:
    scaler.step(optimizer, optimizer.zero_grad)


def within_a_hook(scaler: Any, optimizer: Any) -> None:
    optimizer.register_step_post_hook(lambda optimizer, *_: optimizer.zero_grad())
    scaler.step(optimizer)


def disabled(scaler: Any, optimizer: Any) -> None:  # noqa: ARG001
    GradScaler("cpu", enabled=False).non_finite(optimizer)
    optimizer.zero_grad()


@pytest.mark.parametrize(
    ("freed", "kind"),
    [
        *((freed, syncfree.SGD) for freed in (dropped, clipped, failed, within_a_closure, within_a_hook, disabled)),
        *((freed, torch.optim.SGD) for freed in (clipped, within_a_closure)),
    ],
)
def test_no_gradient_is_kept(freed: Callable[[Any, Any], None], kind: Any) -> None:
    """A gradient that was checked is freed by zero_grad, as in torch."""
    (weight,) = parameters((3,))
    optimizer, scaler = kind([weight], lr=0.1), started()
    set_grads([weight], 0)
    scaler.scale(weight.detach())
    kept = weakref.ref(weight.grad)
    freed(scaler, optimizer)
    assert weight.grad is None
    assert kept() is None
