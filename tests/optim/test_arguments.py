"""What the constructors and add_param_group take and refuse, by name, before any step."""

import inspect
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.optimizers import OURS, THEIRS, parameters

NAMES = pytest.mark.parametrize("name", OURS)
FLOAT8 = torch.ones(3).to(torch.float8_e4m3fn)

STATE_DTYPES = (
    "it takes torch.float32, torch.float64, torch.bfloat16, torch.float16, or None for that of each parameter"
)
UNRECORDED = "autograd does not record the steps of syncfree"
# Calls, and what they raise.
WRONG = f"""\
sgd.add_param_group({{"params": [torch.ones(3)], "state_dtype": torch.float32}})
  TypeError: state_dtype of parameter group 1: expected none; pass it to the optimizer, for all groups
SGD([{{"params": [torch.ones(1)], "state_dtype": torch.float32}}])
  TypeError: state_dtype of parameter group 0: expected none; pass it to the optimizer, for all groups
SGD([torch.ones(3)], state_dtype="float23")
  ValueError: the state_dtype is 'float23', which torch does not have; did you mean 'float32'?
Adam([torch.ones(3)], state_dtype=torch.int32)
  TypeError: the state_dtype is torch.int32; {STATE_DTYPES}
AdamW([torch.ones(3)], state_dtype="complex64")
  TypeError: the state_dtype is torch.complex64; {STATE_DTYPES}
SGD([torch.ones(3)], state_dtype=32)
  TypeError: the state_dtype is 32; give a torch.dtype or its name, such as 'bfloat16'
AdamW([torch.ones(3)], differentiable=True)
  TypeError: differentiable is True, and {UNRECORDED}.AdamW; leave it out, or use torch.optim.AdamW
sgd.add_param_group({{"params": [torch.ones(3)], "differentiable": True}})
  TypeError: differentiable of parameter group 1 is True, and {UNRECORDED}.SGD; leave it out, or use torch.optim.SGD
""".splitlines()


@pytest.mark.parametrize(("call", "text"), list(zip(WRONG[::2], WRONG[1::2], strict=True)))
def test_what_is_wrong_is_named(call: str, text: str) -> None:
    sgd = OURS["SGD"](parameters((3,)))
    try:
        eval(call, globals() | OURS | {"sgd": sgd})
        found = "nothing is raised"
    except (TypeError, ValueError) as error:
        found = f"{type(error).__name__}: {error}"
    assert found == text.strip()
    assert len(sgd.param_groups) == 1


@NAMES
def test_quantized_weights_may_be_among_the_parameters(name: str) -> None:
    """They are frozen, get no gradient, and torch.optim passes over them."""
    (weight,) = parameters((3,))
    frozen = [nn.Parameter(part, requires_grad=False) for part in (torch.arange(3), FLOAT8)]
    optimizer = OURS[name]([weight, *frozen], lr=0.1)
    weight.grad = torch.ones(3)
    optimizer.step()
    assert frozen[0].tolist() == [0, 1, 2]


def test_what_torch_takes_is_taken() -> None:
    params = parameters((3,), (3,))
    for options in ({"betas": [0.9, 0.99]}, {"betas": (torch.tensor(0.9), torch.tensor(0.99))}, {"amsgrad": 1}):
        OURS["Adam"](nn.ParameterList(params), **options)
    OURS["SGD"](params, lr=torch.tensor(0.1, requires_grad=True), weight_decay=torch.tensor(0.1), momentum=1)


CHOICES: list[dict[str, Any]] = [
    {"fused": True},
    {"fused": False},
    {"foreach": True},
    {"foreach": False, "differentiable": False},
    {"capturable": True},
    {"capturable": True, "fused": True},
    {"fused": True, "foreach": True},
    {"fused": True, "differentiable": True},
    {"foreach": True, "lr": torch.tensor(0.1)},
]


@pytest.mark.parametrize("options", CHOICES, ids=str)
@NAMES
def test_options_that_choose_an_implementation_of_torchs_are_taken_as_there(name: str, options: dict[str, Any]) -> None:
    """They are kept in the groups, which checkpoints have, and refused in torch's words; steps are all the same."""

    def made(library: dict[str, Any]) -> Any:
        (weight,) = parameters((3,))
        weight.grad = torch.ones(3)
        try:
            optimizer = library[name]([weight], **options)
        except (TypeError, ValueError, RuntimeError) as error:
            return str(error).partition("__init__()")[2] or str(error)
        if library is OURS:
            optimizer.step()
            assert not hasattr(optimizer, "_step_supports_amp_scaling")  # Lightning would refuse to clip
        return optimizer.defaults, [dict(group, params=0) for group in optimizer.param_groups], repr(optimizer)

    assert made(OURS) == made(THEIRS)


@pytest.mark.parametrize("options", [options for options in CHOICES if len(options) == 1], ids=str)
def test_options_that_choose_an_implementation_change_no_bit(options: dict[str, Any]) -> None:
    weights = []
    for chosen in ({}, options):
        (weight,) = parameters((3,))
        weight.grad = torch.ones(3)
        OURS["AdamW"]([{"params": [weight], **chosen}], **chosen).step()
        weights.append(weight.detach())
    assert torch.equal(*weights)


@pytest.mark.parametrize(
    ("given", "dtype"), [("fp32", torch.float32), ("torch.bfloat16", torch.bfloat16), (None, None)]
)
@NAMES
def test_the_dtype_of_the_state_may_be_text(name: str, given: str | None, dtype: torch.dtype | None) -> None:
    assert OURS[name](parameters((3,)), state_dtype=given).state_dtype is dtype


@NAMES
def test_the_arguments_are_torchs(name: str) -> None:
    """In torch's order and with torch's defaults; state_dtype is ours."""
    ours = dict(inspect.signature(OURS[name]).parameters)
    theirs = inspect.signature(THEIRS[name]).parameters
    assert ours.pop("state_dtype").default is None
    assert {key: value.default for key, value in ours.items()} == {key: value.default for key, value in theirs.items()}
    positional = [key for key, value in theirs.items() if value.kind is value.POSITIONAL_OR_KEYWORD]
    assert [key for key, value in ours.items() if value.kind is value.POSITIONAL_OR_KEYWORD] == positional


BAD = [
    {"lr": -1.0},
    {"weight_decay": -1.0},
    {"lr": torch.ones(2)},
    {"momentum": -1.0},
    {"nesterov": True},
    {"betas": (1.0, 0.9)},
    {"betas": (0.9, -0.1)},
    {"eps": -1.0},
]


@pytest.mark.parametrize("options", BAD, ids=str)
@NAMES
def test_values_that_torch_refuses_are_refused_as_there(name: str, options: dict[str, Any]) -> None:
    messages = []
    for library in (OURS, THEIRS):
        with pytest.raises((ValueError, TypeError)) as caught:
            library[name](parameters((3,)), **options)
        messages.append((caught.type, str(caught.value).partition("__init__()")[2] or str(caught.value)))
    assert messages[0] == messages[1]


@NAMES
def test_a_learning_rate_may_be_a_tensor_of_integers(name: str) -> None:
    weights = []
    for library in (OURS, THEIRS):
        (weight,) = parameters((3,))
        weight.grad = torch.ones(3)
        library[name]([weight], lr=torch.tensor(1)).step()
        weights.append(weight)
    torch.testing.assert_close(*weights)


@NAMES
def test_ours_in_the_place_of_torchs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.optim, name, OURS[name])
    (weight,) = parameters((3,))
    weight.grad = torch.ones(3)
    optimizer = getattr(torch.optim, name)([weight])
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert isinstance(optimizer, OURS[name])
