"""What the functions of polycast.cast_cache say about arguments that they cannot use."""

import re
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import cast_cache

NO_CASTS = "holds no casts; give a module, a tensor, or an iterable of them"


@pytest.mark.parametrize(
    ("function", "argument", "error", "text"),
    [
        (cast_cache.limit, "1GB", TypeError,
         "size is '1GB'; give a whole number of bytes, such as 2**30, or None for no limit"),
        (cast_cache.limit, 1.5, TypeError,
         "size is 1.5; give a whole number of bytes, such as 2**30, or None for no limit"),
        (cast_cache.limit, True, TypeError,
         "size is True; give a whole number of bytes, such as 2**30, or None for no limit"),
        (cast_cache.limit, -1, ValueError, "size is -1; give a number of bytes from 0 on, or None for no limit"),
        (cast_cache.verify, "yes", TypeError, "enabled is 'yes'; it takes True or False"),
        (cast_cache.verify, None, TypeError, "enabled is None; it takes True or False"),
        (cast_cache.keep, 3, TypeError, f"int {NO_CASTS}"),
        (cast_cache.keep, [torch.ones(1), None], TypeError, f"NoneType in place 1 {NO_CASTS}"),
        (cast_cache.keep, "weight", TypeError, f"str {NO_CASTS}"),
        (cast_cache.keep, {"weight": torch.ones(1)}, TypeError, f"dict {NO_CASTS}"),
        (cast_cache.release, [1], TypeError, f"int in place 0 {NO_CASTS}"),
    ],
    ids=str,
)  # fmt: skip
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


def test_any_whole_number_is_a_limit() -> None:
    class Whole:
        def __index__(self) -> int:
            return 0

    weight, x = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.bfloat16)
    cast_cache.keep(weight)
    try:
        for size, entries in ((Whole(), 0), (2**80, 1), (None, 1)):
            cast_cache.limit(size)  # type: ignore[arg-type]
            with torch.no_grad(), polycast.autocast("cpu"):
                x @ weight
            assert sum(counts.entries for counts in cast_cache.info().values()) == entries
    finally:
        cast_cache.limit(None)
        cast_cache.release(weight)
        cast_cache.clear()
