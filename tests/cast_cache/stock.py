"""Stock autocast, to compare the cast cache with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import polycast
import pytest
import torch

from tests.probe import HAS_XLA, NO_XLA

DEVICES = ["cpu", pytest.param("xla", marks=pytest.mark.skipif(not HAS_XLA, reason=NO_XLA))]


@contextmanager
def stock(device: str = "cpu") -> Iterator[None]:
    """Put torch's own kernels in polycast's place."""
    polycast.uninstall(device)
    try:
        yield
    finally:
        polycast.install(device)


def count_casts(run: Callable[[], object]) -> int:
    """Run it, and return how many times a tensor was cast."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    return sum(event.name == "aten::_to_copy" for event in profile.events())
