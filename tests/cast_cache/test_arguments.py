"""What the functions of polycast.cast_cache say about arguments that they cannot use."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from polycast import cast_cache
from torch import Tensor

from tests.cast_cache.stock import module_of


@pytest.mark.parametrize("function", [cast_cache.keep, cast_cache.release])
@pytest.mark.parametrize("argument", [3, "weight", torch.ones(1), [torch.nn.Linear(1, 1)], None], ids=repr)
def test_what_is_no_module_is_refused(function: Callable[..., object], argument: Any) -> None:
    kind = type(argument).__name__
    text = f"module: expected a torch.nn.Module, got {kind}; give the module that holds the tensors"
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        function(argument)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.ones(2)[:1], "it is a view, a dual tensor or the result of an op"),
        (lambda: torch.inference_mode()(torch.ones)(2), "it is an inference tensor, which counts no versions"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
         "it is a tensor subclass, a wrapper or not strided"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(make: Callable[[], Tensor], text: str) -> None:
    before = dict(cast_cache._kept)
    text = f"cannot keep the casts of tensor0: {text}; give a module that has other parameters or buffers"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        cast_cache.keep(module_of(make()))
    assert cast_cache._kept == before


def test_of_a_module_what_cannot_be_kept_is_ignored_and_named() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Module())
    model[1].register_buffer("count", torch.ones(2, dtype=torch.int64))  # which has no casts, so nothing is said
    for number in range(10):
        model[1].register_buffer(f"part{number}", torch.ones(1).expand(3))
    text = "; of ".join(f"1.part{number}: it is a view, a dual tensor or the result of an op" for number in range(8))
    with pytest.warns(UserWarning, match=f"^keeps no casts of {re.escape(text)}; and of 2 more$") as caught:
        cast_cache.keep(model)
    assert caught[0].filename == __file__
    assert {parameter._cdata for parameter in model.parameters()} <= cast_cache._kept.keys()
    with pytest.raises(ValueError, match=r"^cannot keep the casts of part0: it is a view, a dual tensor or the result"):
        cast_cache.keep(model[1])  # which has no other
