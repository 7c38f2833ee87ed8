"""The errors of the optimizers. An error names the argument, and the call changes no parameter, state or group."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.optimizers import OURS, PATHS, THEIRS, make, parameters, same_bits, set_grads, tensors
from tests.support.recorded_errors import RecordedError

F32, HALF = torch.float32, torch.float16
ONE = torch.ones(())
OP = torch.ops.polycast
SGD, Adam, AdamW = OURS.values()
# A setting is a kind of optimizer, and the kernels of its steps.
SETTINGS = {
    "SGD": ("SGD momentum", "fused"),
    "Adam": ("Adam amsgrad", "composition"),
    "stock": ("SGD dampening", "torch.optim"),
}


def three(dtype: torch.dtype = F32) -> list[Tensor]:
    return parameters((3,), dtype=dtype)


def saved(name: str, **options: Any) -> dict[str, Any]:
    state: dict[str, Any] = THEIRS[name](three(), **options).state_dict()
    return state


def of_group(name: str, **numbers: float) -> dict[str, Any]:
    return {**saved(name), "param_groups": [{"params": [0], "lr": 0.1, **numbers}]}


def damaged(optimizer: Any, name: str, **new: object) -> dict[str, Any]:
    """Return an optimizer's state without one value of the second parameter, or with a new value."""
    state: dict[str, Any] = copy.deepcopy(optimizer.state_dict())
    del state["state"][1][name]
    state["state"][1].update(new)
    return state


def step_with(optimizer: Any, **options: Any) -> None:
    """Step with these options in the second group."""
    optimizer.param_groups[1].update(options)
    optimizer.step()


def step_and(optimizer: Any, added: Tensor) -> None:
    """Step with another parameter in the second group."""
    added.grad = torch.ones_like(added)
    optimizer.param_groups[1]["params"].append(added)
    optimizer.step()


def step_from(optimizer: Any, average: Tensor) -> None:
    """Step with this tensor as an average in the state of the second group."""
    values = optimizer.state[optimizer.param_groups[1]["params"][0]]
    values["momentum_buffer" if "momentum_buffer" in values else "exp_avg"] = average
    optimizer.step()


def step_sparse(optimizer: Any, **options: Any) -> None:
    """Step with a sparse gradient in the second group."""
    optimizer.param_groups[1]["params"][0].grad = torch.ones(2, 3).to_sparse()
    step_with(optimizer, **options)


def mixed(optimizer: Any) -> list[Tensor]:
    """Return tensors on two devices."""
    return [optimizer.param_groups[0]["params"][0].detach(), torch.ones(3, device="meta")]


PLAIN_SGD: dict[str, Any] = {"lr": 1.0, "weight_decay": 0.0, "momentum": 0.0, "nesterov": False, "maximize": False}
# Each case has its settings, and a call that raises. The call's argument is an optimizer of two groups.
CASES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "state_dtype of a first group": ("SGD", lambda _: SGD([{"params": three(), "state_dtype": F32}])),
    "state_dtype of an added group": ("SGD", lambda it: it.add_param_group({"params": three(), "state_dtype": F32})),
    "a misspelled state_dtype": ("SGD", lambda _: SGD(three(), state_dtype="float23")),
    "state_dtype of integers": ("Adam", lambda _: Adam(three(), state_dtype=torch.int32)),
    "state_dtype of complex numbers": ("Adam", lambda _: AdamW(three(), state_dtype="complex64")),
    "a number for state_dtype": ("SGD", lambda _: SGD(three(), state_dtype=32)),
    "differentiable": ("Adam", lambda _: AdamW(three(), differentiable=True)),
    "Adam's state in float16, of a parameter": ("Adam", lambda _: Adam(three(HALF))),
    "Adam's state in float16 by state_dtype": ("Adam", lambda _: AdamW(three(), state_dtype=HALF)),
    "Adam's state in float16, of an added group": ("Adam", lambda it: it.add_param_group({"params": three(HALF)})),
    "state of SGD": ("Adam", lambda it: it.load_state_dict(of_group("SGD", momentum=0))),
    "state of Adam": ("SGD", lambda it: it.load_state_dict(of_group("Adam", eps=0.1))),
    "state without the count of steps": ("Adam", lambda it: it.load_state_dict(damaged(it, "step"))),
    "state with a string as the count": ("Adam", lambda it: it.load_state_dict(damaged(it, "step", step="one"))),
    "state with None as an average": ("Adam", lambda it: it.load_state_dict(damaged(it, "exp_avg", exp_avg=None))),
    "state without an average": ("Adam", lambda it: it.load_state_dict(damaged(it, "exp_avg_sq"))),
    "two numbers for lr": ("SGD Adam", lambda it: step_with(it, lr=torch.ones(2))),
    "an expanded parameter": ("SGD Adam", lambda it: step_and(it, torch.ones(1).expand(3))),
    "a parameter of inference mode": ("SGD Adam", lambda it: step_and(it, torch.inference_mode()(torch.ones)(3))),
    "a state of other sizes": ("SGD Adam", lambda it: step_from(it, torch.ones(4))),
    "a state of integers": ("SGD Adam", lambda it: step_from(it, torch.ones(2, 3, dtype=torch.int32))),
    "a sparse gradient for Adam": ("Adam", step_sparse),
    "a sparse gradient with weight decay": ("SGD", lambda it: step_sparse(it, weight_decay=0.1)),
    "two elements for found_inf": ("SGD Adam stock", lambda it: it.step(found_inf=torch.zeros(2))),
    "a number for found_inf": ("SGD Adam stock", lambda it: it.step(found_inf=1.0)),
    "no element for found_inf": ("SGD Adam stock", lambda it: it.step(found_inf=torch.zeros(0))),
    "a bool for found_inf": ("SGD Adam stock", lambda it: it.step(found_inf=torch.tensor(False))),
    "float64 for found_inf": ("SGD Adam stock", lambda it: it.step(found_inf=torch.zeros(1, dtype=torch.float64))),
    "an integer for grad_scale": ("SGD Adam stock", lambda it: it.step(grad_scale=torch.tensor(2))),
    "two elements for clip_coef": ("SGD Adam stock", lambda it: it.step(clip_coef=torch.ones(1, 2))),
    "find_non_finite of two devices": ("SGD Adam", lambda it: OP.find_non_finite(mixed(it))),
    "norm of two devices": ("SGD Adam", lambda it: OP.norm(mixed(it), False)),
    "unscale_ of two devices": ("SGD Adam", lambda it: OP.unscale_(mixed(it), torch.zeros(()), ONE * 2)),
    "unscale_ with a scale on another device": (
        "SGD Adam",
        lambda it: OP.unscale_(mixed(it)[:1], torch.zeros(()), ONE.to("meta")),
    ),
    "sgd_step_ of two devices": ("SGD Adam", lambda it: OP.sgd_step_(mixed(it), mixed(it), [], **PLAIN_SGD)),
    "find_non_finite of no tensors": ("SGD Adam", lambda _: OP.find_non_finite([])),
    "norm of no tensors": ("SGD Adam", lambda _: OP.norm([], False)),
}


@pytest.mark.parametrize(
    ("title", "setting"), [(title, each) for title, (settings, _) in CASES.items() for each in settings.split()]
)
def test_an_error_changes_nothing(title: str, setting: str, recorded_error: RecordedError) -> None:
    kind, path = SETTINGS[setting]
    params = parameters((3,), (2, 3))
    optimizer = make(OURS, kind, [{"params": params[:1]}, {"params": params[1:]}])
    set_grads(params, 0)
    with PATHS[path]():
        optimizer.step()
        groups, state = optimizer.param_groups, optimizer.state
        before = [(tensor, tensor.detach().clone()) for tensor in tensors(optimizer)]
        with recorded_error():
            CASES[title][1](optimizer)
    assert all(same_bits(tensor, value) for tensor, value in before)
    assert (optimizer.param_groups is groups, optimizer.state is state, len(groups)) == (True, True, 2)
