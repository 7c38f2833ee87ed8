"""Stock autocast as the reference for the cast cache, and counters of casts and memory."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import polycast
import torch
from torch import Tensor, nn

from tests.support.devices import casts_by_itself


@contextmanager
def stock(device: str = "cpu") -> Iterator[None]:
    """Use stock autocast kernels on a device. A device that has none continues to use polycast's."""
    if not casts_by_itself(device):
        yield
        return
    with polycast.uninstall(device), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the policy's kernels for .* are not installed")
        yield


def count_casts(run: Callable[[], object]) -> int:
    """Run a function, and return the number of its casts."""
    return sum(event.name() == "aten::_to_copy" for event in _events(run))


def is_kept(tensor: Tensor) -> bool:
    """Return whether a second region reuses the cast of a tensor."""
    ones = torch.ones(len(tensor), dtype=torch.bfloat16)

    def use() -> None:
        with torch.no_grad(), polycast.autocast("cpu"):
            ones @ tensor

    use()
    return count_casts(use) == 0


def count_allocated(run: Callable[[], object]) -> int:
    """Run a function, and return the number of bytes by which the allocated CPU memory grows."""
    return sum(event.nbytes() for event in _events(run, memory=True) if event.name() == "[memory]")


def _events(run: Callable[[], object], memory: bool = False) -> list[Any]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=memory) as profile:
        run()
    results = profile.profiler.kineto_results if profile.profiler else None
    assert results is not None
    return list(results.events())


def module_of(*tensors: Tensor) -> nn.Module:
    """Return a module whose parameters and buffers are these tensors."""
    module = nn.Module()
    for number, tensor in enumerate(tensors):
        if isinstance(tensor, nn.Parameter):
            module.register_parameter(f"tensor{number}", tensor)
        else:
            module.register_buffer(f"tensor{number}", tensor)
    return module
