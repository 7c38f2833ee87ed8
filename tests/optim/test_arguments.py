"""What the constructors take and refuse."""

import inspect
from typing import Any

import pytest
import torch

from tests.optimizers import OURS, THEIRS, parameters

NAMES = pytest.mark.parametrize("name", OURS)
OPTIONS = ("foreach", "capturable", "differentiable", "fused")


@pytest.mark.parametrize("option", OPTIONS)
@NAMES
def test_options_that_make_no_sense(name: str, option: str) -> None:
    if option not in inspect.signature(THEIRS[name]).parameters:
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
            OURS[name](parameters((3,)), **{option: True})
        return
    text = (
        f"^syncfree.{name} has one implementation, fused and free of host reads, so it takes no {option}=True; "
        f"leave {option} out$"
    )
    with pytest.raises(TypeError, match=text):
        OURS[name](parameters((3,)), **{option: True})
    assert (
        OURS[name](parameters((3,)), **{option: False}).defaults.keys()
        == THEIRS[name](parameters((3,))).defaults.keys()
    )


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
def test_values_that_torch_refuses(name: str, options: dict[str, Any]) -> None:
    messages = []
    for library in (OURS, THEIRS):
        with pytest.raises((ValueError, TypeError)) as caught:
            library[name](parameters((3,)), **options)
        messages.append((caught.type, str(caught.value).partition("__init__()")[2] or str(caught.value)))
    assert messages[0] == messages[1]
