"""What the functions of polycast.cast_cache say about arguments that they cannot use."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from polycast import cast_cache

NO_CASTS = "holds no casts; give a module, a tensor, or an iterable of them"
NO_SIZE = "give a whole number of bytes, such as 2**30, or None for no limit"


@pytest.mark.parametrize(
    ("function", "argument", "error", "text"),
    [
        (cast_cache.limit, "1GB", TypeError, f"size is '1GB'; {NO_SIZE}"),
        (cast_cache.limit, 1.5, TypeError, f"size is 1.5; {NO_SIZE}"),
        (cast_cache.limit, True, TypeError, f"size is True; {NO_SIZE}"),
        (cast_cache.limit, -1, ValueError, "size is -1; give a number of bytes from 0 on, or None for no limit"),
        (cast_cache.verify, "yes", TypeError, "enabled is 'yes'; it takes True or False"),
        (cast_cache.verify, None, TypeError, "enabled is None; it takes True or False"),
        (cast_cache.keep, 3, TypeError, f"int {NO_CASTS}"),
        (cast_cache.keep, [torch.ones(1), None], TypeError, f"NoneType in place 1 {NO_CASTS}"),
        (cast_cache.keep, "weight", TypeError, f"str {NO_CASTS}"),
        (cast_cache.keep, {"weight": torch.ones(1)}, TypeError, f"dict {NO_CASTS}"),
        (cast_cache.release, [1], TypeError, f"int in place 0 {NO_CASTS}"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_it_cannot_use(function: Callable[..., None], argument: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        function(argument)


@pytest.mark.parametrize("function", [cast_cache.keep, cast_cache.release])
def test_a_generator_that_was_used_up(function: Callable[..., None]) -> None:
    parameters = torch.nn.Linear(2, 2).parameters()
    assert len([*parameters]) == 2
    text = "^the iterator gives no tensor; if it was used up before, give a list instead$"
    with pytest.warns(UserWarning, match=text) as caught:
        function(parameters)
    assert caught[0].filename == __file__
    function([])  # says itself that it is empty


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.ones(2, dtype=torch.int64), "the tensor: it is not floating-point"),
        (lambda: torch.ones(2).requires_grad_() * 1, "the tensor: it is a view, a dual tensor or the result of an op"),
        (lambda: [torch.ones(2), torch.ones(2)[:1]], "tensor 1: it is a view, a dual tensor or the result of an op"),
        (lambda: torch.inference_mode()(torch.ones)(2),
         "the tensor: it is an inference tensor, which counts no versions"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
         "the tensor: it is a tensor subclass, a wrapper or not strided"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(make: Callable[[], Any], text: str) -> None:
    before = dict(cast_cache._kept)
    with pytest.raises(
        ValueError,
        match=f"^cannot keep the casts of {re.escape(text)}; give floating-point parameters, buffers or other leaves$",
    ):
        cast_cache.keep(make())
    assert cast_cache._kept == before


def test_of_a_module_what_cannot_be_kept_is_ignored_and_named() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Module())
    for number in range(10):
        model[1].register_buffer(f"part{number}", torch.ones(1).expand(3))
    text = "; of ".join(f"1.part{number}: it is a view, a dual tensor or the result of an op" for number in range(8))
    with pytest.warns(UserWarning, match=f"^keeps no casts of {re.escape(text)}; and of 2 more$") as caught:
        cast_cache.keep(model)
    assert caught[0].filename == __file__
    assert {parameter._cdata for parameter in model.parameters()} <= cast_cache._kept.keys()
    with pytest.raises(ValueError, match=r"^cannot keep the casts of part0: it is a view, a dual tensor or the result"):
        cast_cache.keep(model[1])  # which has no other
