"""The interface of the sync-free optimizers: arguments, closures, scalers, classes of parameters, and device syncs."""

import inspect
from typing import Any

import numpy
import polycast
import pytest
import torch
from polycast.devices import facts_of
from torch import nn

from tests.support.devices import Reads, no_syncs, synchronize
from tests.support.optimizers import OURS, SHAPES, THEIRS, Options, make, parameters, set_grads


@pytest.mark.parametrize("name", OURS)
def test_the_arguments_match_torch_optim(name: str) -> None:
    """The arguments equal ``torch.optim``'s in order and defaults. ``state_dtype`` is an additional argument."""
    ours = dict(inspect.signature(OURS[name]).parameters)
    theirs = inspect.signature(THEIRS[name]).parameters
    assert issubclass(OURS[name], THEIRS[name])
    assert ours.pop("state_dtype").default is None
    assert {key: value.default for key, value in ours.items()} == {key: value.default for key, value in theirs.items()}
    positional = [key for key, value in theirs.items() if value.kind is value.POSITIONAL_OR_KEYWORD]
    assert [key for key, value in ours.items() if value.kind is value.POSITIONAL_OR_KEYWORD] == positional


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": -1.0}),
        ("SGD", {"nesterov": True}),
        ("Adam", {"betas": (1.0, 0.9)}),
        ("AdamW", {"lr": torch.ones(2)}),
        ("SGD", {"fused": True}),
        ("SGD", {"fused": True, "foreach": True}),
        ("SGD", {"foreach": True, "lr": torch.tensor(0.1)}),
        ("SGD", {"lr": torch.tensor(0.1, requires_grad=True), "weight_decay": torch.tensor(0.1), "momentum": 1}),
        ("SGD", {"lr": torch.tensor(1)}),
        ("SGD", {"lr": numpy.array(0.1)}),
        ("Adam", {"betas": [0.9, 0.99], "amsgrad": 1, "lr": torch.tensor(1)}),
        ("AdamW", {"capturable": True, "fused": True}),
        ("AdamW", {"foreach": True, "lr": torch.tensor(0.1)}),
    ],
    ids=str,
)
def test_values_are_accepted_or_rejected_as_in_torch_optim(
    name: str, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both libraries raise the same error, or create equal groups and take equal steps."""
    # Users replace the class if they cannot edit the library that creates the optimizer.
    monkeypatch.setattr(torch.optim, name, OURS[name])
    made: list[Any] = []
    weights = []
    for library in (OURS, THEIRS):
        (weight,) = parameters((3,))
        weight.grad = torch.ones(3)
        try:
            optimizer = library[name](nn.ParameterList([weight]), **options)
        except (TypeError, ValueError, RuntimeError) as error:
            made.append(str(error).partition("__init__()")[2] or str(error))
            continue
        assert library is THEIRS or not hasattr(optimizer, "_step_supports_amp_scaling")  # Lightning would not clip.
        groups = [dict(group, params=0) for group in optimizer.param_groups]
        made.append((optimizer.defaults, groups, repr(optimizer)))
        optimizer.step()
        weights.append(weight.detach())
    assert made[0] == made[1]
    torch.testing.assert_close(weights[:1], weights[1:])


def test_quantized_weights_can_be_among_the_parameters() -> None:
    """A step ignores integer and float8 weights, which have no gradient, like a step of ``torch.optim``."""
    (weight,) = parameters((3,))
    float8 = torch.ones(3).to(torch.float8_e4m3fn)
    frozen = [nn.Parameter(part, requires_grad=False) for part in (torch.arange(3), float8)]
    optimizer = OURS["Adam"]([weight, *frozen], lr=0.1)
    weight.grad = torch.ones(3)
    optimizer.step()
    assert frozen[0].tolist() == [0, 1, 2]


def test_a_step_with_a_closure_matches_torch_optim() -> None:
    def losses(library: dict[str, Any]) -> list[float]:
        (weight,) = parameters((3,))
        optimizer: Any = make(library, "SGD", [weight])

        def closure() -> float:
            (weight.grad,) = torch.autograd.grad(loss := weight.square().sum(), [weight])
            return loss.item()

        return [optimizer.step(closure) for _ in range(3)]

    assert losses(OURS) == pytest.approx(losses(THEIRS))


def test_a_preset_grad_scale_multiplies_the_scale_of_a_scaler() -> None:
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


class Strict(torch.Tensor):
    """A tensor that, like torchvision's image classes, rejects functions with tensors of unrelated classes."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not all(issubclass(cls, other) for other in types):
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]


def test_parameters_of_classes_that_reject_each_other() -> None:
    results = []
    for library in (OURS, THEIRS):
        classes = [type(name, (Strict,), {}) for name in ("Mask", "Image")]
        params = [torch.nn.Parameter(torch.ones(2).as_subclass(each)) for each in classes]
        for param in params:
            param.grad = torch.full((2,), 0.5)
        make(library, "AdamW", params).step()
        results.append([param.detach().as_subclass(torch.Tensor) for param in params])
    torch.testing.assert_close(*results)


def test_parameters_can_be_swapped_between_steps() -> None:
    """A step leaves no reference to a parameter in C++, because ``torch.utils.swap_tensors`` would raise for it."""
    param, other = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = make(OURS, "Adam", [param])
    set_grads([param], 0)
    optimizer.step()
    torch.utils.swap_tensors(param, other)  # type: ignore[no-untyped-call]
    set_grads([param], 1)
    before = other.detach().clone()
    optimizer.step()
    assert torch.equal(other, before)
    assert (param != 1).all()


@pytest.mark.parametrize("lr", ["number", "host", "device"])
@pytest.mark.parametrize("kind", ["SGD nesterov", "Adam amsgrad"])
def test_steps_do_not_sync(kind: str, lr: str, real_device: str) -> None:
    """Neither the first step, which creates the state, nor a skipped step syncs."""
    if not facts_of(real_device).skips_by_itself:
        pytest.skip(f"on {real_device} torch.optim runs the step, with one device sync")
    params = parameters(*SHAPES, device=real_device)
    optimizer: Any = make(OURS, kind, params)
    if lr != "number":
        optimizer.param_groups[0]["lr"] = torch.tensor(0.1, device="cpu" if lr == "host" else real_device)
    set_grads(params, 0)
    there = [torch.tensor(number, device=real_device) for number in (1.0, 0.0)]
    with no_syncs(real_device):
        for found_inf in (*there, torch.tensor(0.0), None):
            optimizer.step(found_inf=found_inf, grad_scale=torch.tensor(2.0), clip_coef=there[0])
            synchronize(real_device)


@pytest.mark.parametrize("kind", ["SGD dampening", "Adam"])
def test_a_step_of_torch_optim_syncs_once(kind: str, real_device: str) -> None:
    """If ``torch.optim`` runs the step, a taken or skipped step syncs once for all groups."""
    if kind == "Adam" and facts_of(real_device).skips_by_itself:
        pytest.skip(f"on {real_device} this step does not sync")
    params = parameters(*SHAPES, device=real_device)
    optimizer: Any = make(OURS, kind, [{"params": [param]} for param in params])
    set_grads(params, 0)
    optimizer.step()
    for found_inf in (1.0, 0.0):
        flag = torch.tensor(found_inf, device=real_device)
        with Reads(real_device) as reads:
            optimizer.step(found_inf=flag)
        assert len(reads.ops) == 1
