"""Stock autocast, to compare the cast cache with, and what the cache holds."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import polycast
import torch
from polycast import cast_cache

from tests.support.devices import casts_by_itself


@contextmanager
def stock(device: str = "cpu") -> Iterator[None]:
    """Put torch's own kernels in polycast's place; where a backend has none ours stay, to compare without a cache."""
    if not casts_by_itself(device):
        yield
        return
    polycast.uninstall(device)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the policy's kernels for .* are not installed")
            yield
    finally:
        polycast.install(device)


def count_casts(run: Callable[[], object]) -> int:
    """Run it, and return how many times a tensor was cast."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    results = profile.profiler.kineto_results if profile.profiler else None
    assert results is not None
    return sum(event.name() == "aten::_to_copy" for event in results.events())


def held() -> tuple[int, int]:
    """Return how many casts are kept, and their bytes."""
    counts = cast_cache.info().values()
    return sum(count.entries for count in counts), sum(count.bytes for count in counts)


def hits(device: str = "cpu") -> int:
    """Return how many times a kept cast was reused."""
    counts = cast_cache.info().get(device)
    return counts.hits if counts else 0
