"""The errors of ``polycast.cast_cache`` for arguments that it does not support."""

from collections.abc import Callable

import pytest
import torch
from polycast import cast_cache
from torch import nn

from tests.cast_cache.stock import is_kept, module_of
from tests.support.recorded_errors import RecordedError


def managed() -> nn.Module:
    model = nn.Sequential(nn.Linear(8, 8))
    torch.distributed.fsdp.fully_shard(model[0], mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (1,)))
    return model


ERRORS: dict[str, Callable[[], object]] = {
    "keep a number": lambda: cast_cache.keep(3),  # type: ignore[arg-type]
    "keep a tensor": lambda: cast_cache.keep(torch.ones(1)),  # type: ignore[arg-type]
    "a view": lambda: cast_cache.keep(module_of(torch.ones(2)[:1])),
    "an inference tensor": lambda: cast_cache.keep(module_of(torch.inference_mode()(torch.ones)(2))),
    "a subclass": lambda: cast_cache.keep(module_of(torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged))),
    "a module that FSDP manages": lambda: cast_cache.keep(managed()),
    "a DTensor": lambda: cast_cache.keep(module_of(managed()[0].get_parameter("weight"))),  # type: ignore[index]
}


@pytest.mark.usefixtures("world_of_one")
@pytest.mark.parametrize("title", ERRORS)
def test_keep_raises_for_unsupported_arguments(title: str, recorded_error: RecordedError) -> None:
    with recorded_error():
        ERRORS[title]()


def test_keep_ignores_and_names_unsupported_tensors_of_a_module(recorded_error: RecordedError) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Module())
    model[1].register_buffer("count", torch.ones(2, dtype=torch.int64))  # Integers are ignored without a warning.
    for number in range(10):
        model[1].register_buffer(f"part{number}", torch.ones(1).expand(3))
    with pytest.warns(UserWarning) as caught, recorded_error():
        cast_cache.keep(model)
        raise caught[0].message  # type: ignore[misc]
    assert caught[0].filename == __file__
    assert is_kept(model[0].weight) and is_kept(model[0].bias)
    with recorded_error():
        cast_cache.keep(model[1])  # This module has no supported tensor.
