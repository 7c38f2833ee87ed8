"""What the constructors take; what they refuse is in test_errors.py."""

import inspect
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.optimizers import OURS, THEIRS, Options, parameters

NAMES = pytest.mark.parametrize("name", OURS)


@NAMES
def test_the_arguments_are_torchs(name: str) -> None:
    """In torch's order and with torch's defaults; state_dtype is ours."""
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
        ("SGD", {"lr": -1.0}),
        ("SGD", {"momentum": -1.0}),
        ("SGD", {"nesterov": True}),
        ("Adam", {"eps": -1.0}),
        ("Adam", {"betas": (1.0, 0.9)}),
        ("AdamW", {"weight_decay": -1.0}),
        ("AdamW", {"lr": torch.ones(2)}),
    ],
    ids=str,
)
def test_values_that_torch_refuses_are_refused_as_there(name: str, options: Options) -> None:
    messages = []
    for library in (OURS, THEIRS):
        with pytest.raises(ValueError) as caught:
            library[name](parameters((3,)), **options)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    "options",
    [
        {"fused": True},
        {"foreach": False, "differentiable": False},
        {"capturable": True, "fused": True},
        {"fused": True, "foreach": True},
        {"foreach": True, "lr": torch.tensor(0.1)},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_options_that_choose_an_implementation_of_torchs_are_taken_as_there(name: str, options: Options) -> None:
    """They are kept in the groups, which checkpoints have, and refused in torch's words; steps are all the same."""

    def made(library: dict[str, Any]) -> Any:
        (weight,), (other,) = parameters((3,)), parameters((3,))
        weight.grad = other.grad = torch.ones(3)
        try:
            optimizer = library[name]([weight], **options)
        except (TypeError, ValueError, RuntimeError) as error:
            return str(error).partition("__init__()")[2] or str(error)
        if library is OURS:
            optimizer.step()
            OURS[name]([other], lr=options.get("lr", 1e-3)).step()
            assert torch.equal(weight, other)
            assert not hasattr(optimizer, "_step_supports_amp_scaling")  # Lightning would refuse to clip
        return optimizer.defaults, [dict(group, params=0) for group in optimizer.param_groups], repr(optimizer)

    assert made(OURS) == made(THEIRS)


def test_quantized_weights_may_be_among_the_parameters() -> None:
    """They are frozen, get no gradient, and torch.optim passes over them."""
    (weight,) = parameters((3,))
    float8 = torch.ones(3).to(torch.float8_e4m3fn)
    frozen = [nn.Parameter(part, requires_grad=False) for part in (torch.arange(3), float8)]
    optimizer = OURS["Adam"]([weight, *frozen], lr=0.1)
    weight.grad = torch.ones(3)
    optimizer.step()
    assert frozen[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Adam", {"betas": [0.9, 0.99], "amsgrad": 1, "lr": torch.tensor(1)}),
        ("Adam", {"betas": (torch.tensor(0.9), torch.tensor(0.99))}),
        ("SGD", {"lr": torch.tensor(0.1, requires_grad=True), "weight_decay": torch.tensor(0.1), "momentum": 1}),
        ("SGD", {"lr": torch.tensor(1)}),
    ],
    ids=str,
)
def test_numbers_may_be_tensors_and_of_any_type(name: str, options: Options) -> None:
    weights = []
    for library, betas in ((OURS, options.get("betas")), (THEIRS, (0.9, 0.99))):
        (weight,) = parameters((3,))
        weight.grad = torch.ones(3)
        given = {**options, "betas": betas} if name == "Adam" else options
        library[name](nn.ParameterList([weight]), **given).step()
        weights.append(weight.detach())
    torch.testing.assert_close(*weights)


@pytest.mark.parametrize(("given", "dtype"), [("fp32", torch.float32), ("torch.bfloat16", torch.bfloat16)])
def test_the_dtype_of_the_state_may_be_text(given: str, dtype: torch.dtype) -> None:
    assert OURS["SGD"](parameters((3,)), state_dtype=given).state_dtype is dtype


@NAMES
def test_ours_in_the_place_of_torchs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.optim, name, OURS[name])
    (weight,) = parameters((3,))
    weight.grad = torch.ones(3)
    optimizer = getattr(torch.optim, name)([weight])
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert isinstance(optimizer, OURS[name])
