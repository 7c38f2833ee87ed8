"""The sync-free optimizers as optimizers: copies, closures, scalers, classes."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch

from tests.support.optimizers import KINDS, OURS, THEIRS, make, parameters, same_bits, set_grads, step

# One that ours step, and one that torch.optim steps.
BOTH = pytest.mark.parametrize("kind", ["AdamW", "SGD dampening"])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))])
@BOTH
def test_copies_are_shown_as_torchs_and_go_on_by_themselves(kind: str, duplicate: Callable[[Any], Any]) -> None:
    (weight,) = params = parameters((3,))
    optimizer: Any = make(OURS, kind, params, fused=True)
    set_grads(params, 0)
    optimizer.step()
    twin = duplicate(optimizer)
    shown = repr(make(THEIRS, kind, params)).replace("foreach: False", "foreach: None")
    assert repr(twin) == repr(optimizer) == shown.replace("fused: False", "fused: True")
    (other,) = twin.param_groups[0]["params"]
    other.grad = weight.grad
    for each in (optimizer, twin):
        each.step()
    assert same_bits(weight, other)


def test_a_step_with_a_closure_is_torchs() -> None:
    def run(library: dict[str, Any]) -> tuple[list[float], torch.Tensor]:
        (weight,) = parameters((3,))
        optimizer: Any = make(library, "SGD nesterov", [weight])

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = weight.square().sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        return [optimizer.step(closure).item() for _ in range(3)], weight

    torch.testing.assert_close(run(OURS), run(THEIRS), rtol=1e-5, atol=1e-6)


@BOTH
def test_a_scaler_steps_a_subclass_whose_step_takes_a_closure_only(kind: str) -> None:
    """It tells the scalars by torch's protocol for fused steps, as attributes."""
    name, options = KINDS[kind]

    class Own(OURS[name]):  # type: ignore[misc, valid-type]
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    stepped = []
    for optimizer_class in (OURS[name], Own):
        (weight,) = params = parameters((3,))
        optimizer, scaler = optimizer_class(params, **options), polycast.GradScaler(init_scale=4.0)
        for factor in (1.0, float("inf"), 2.0):
            set_grads(params, 0, factor)
            scaler.scale(weight.detach())
            scaler.clip_grad_norm(optimizer, 0.5)
            scaler.step(optimizer)
            scaler.update()
        assert scaler.skip_count(optimizer).item() == 1
        stepped.append(weight)
    assert same_bits(*stepped)


def test_a_preset_grad_scale_multiplies_that_of_a_scaler() -> None:
    found = []
    for optim, options in ((OURS["SGD"], {}), (torch.optim.SGD, {"fused": True})):
        (weight,) = parameters((3,))
        optimizer, scaler = optim([weight], lr=0.5, **options), polycast.GradScaler(init_scale=4.0)
        set_grads([weight], 0)
        scaler.scale(weight.detach())
        vars(optimizer)["grad_scale"] = torch.tensor(2.0)
        scaler.step(optimizer)
        found.append(weight.detach())
    torch.testing.assert_close(*found)


def test_an_argument_of_a_step_goes_before_an_attribute() -> None:
    (weight,) = parameters((3,))
    optimizer: Any = make(OURS, "SGD", [weight])
    set_grads([weight], 0)
    before = weight.detach().clone()
    optimizer.found_inf = torch.tensor(0.0)
    step(optimizer, found_inf=1.0)
    assert same_bits(weight, before)


def test_training_with_torchs_scaler_is_torchs() -> None:
    def run(library: dict[str, Any]) -> tuple[list[float], list[torch.Tensor]]:
        params = parameters((3,), (2, 2))
        optimizer: Any = make(library, "Adam", params)
        scaler: Any = torch.amp.grad_scaler.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        scales = []
        for number in range(6):
            optimizer.zero_grad()
            factor = float("inf") if number in (0, 3) else 1.0
            loss = torch.stack([param.square().sum() for param in params]).sum() * factor
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        return scales, params

    (scales, params), (wanted_scales, wanted) = run(OURS), run(THEIRS)
    assert scales == wanted_scales
    assert len(set(scales)) > 1
    torch.testing.assert_close(params, wanted, rtol=1e-5, atol=1e-5)


class Strict(torch.Tensor):
    """Refuses functions that take tensors of unrelated classes, as torchvision's kinds of images do."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not all(issubclass(cls, other) for other in types):
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]


class Other(Strict):
    pass


class Another(Strict):
    pass


def test_parameters_of_classes_that_refuse_each_other() -> None:
    results = []
    for library in (OURS, THEIRS):
        params = [torch.nn.Parameter(torch.ones(2).as_subclass(each)) for each in (Other, Another)]
        for param in params:
            param.grad = torch.full((2,), 0.5)
        make(library, "AdamW", params).step()
        results.append([param.detach().as_subclass(torch.Tensor) for param in params])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("kind", ["SGD momentum", "Adam"])
def test_parameters_can_be_swapped_between_steps(kind: str) -> None:
    """Torch refuses to swap a tensor that anything else refers to."""
    param, other = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = make(OURS, kind, [param])
    set_grads([param], 0)
    optimizer.step()
    torch.utils.swap_tensors(param, other)  # type: ignore[no-untyped-call]
    set_grads([param], 1)
    before = other.detach().clone()
    optimizer.step()
    assert torch.equal(other, before)
    assert (param != 1).all()
