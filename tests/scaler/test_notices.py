"""What a gradient scaler tells, once: that an optimizer makes it read."""

import warnings
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import backends, syncfree

from tests.scaler.common import Loop

READS = (
    "each step of SGD waits until the device has told whether to skip it; an optimizer of polycast.syncfree does not"
)


def told(call: Callable[[], object]) -> list[tuple[str, str]]:
    """Return the texts of the warnings of a call, and the files they point at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(str(warning.message), warning.filename) for warning in caught]


def train(scaler: Any, library: Any, steps: int = 3) -> None:
    loop = Loop(scaler, library)
    for _ in range(steps):
        loop.iterate(1.0)


@pytest.mark.parametrize(
    ("stalls", "library", "texts"),
    [(True, torch.optim, [READS]), (True, syncfree, []), (False, torch.optim, []), (False, syncfree, [])],
)
def test_where_a_read_stalls_the_remedy_is_named_once(
    stalls: bool, library: Any, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "reads_stall", lambda kind: stalls and kind == "cpu")
    scaler = polycast.GradScaler()

    def twice() -> None:
        train(scaler, library)
        train(scaler, library)

    assert told(twice) == [(text, __file__.replace("test_notices", "common")) for text in texts]


def test_reads_stall_on_xla_only() -> None:
    assert [kind for kind in ("cpu", "cuda", "xpu", "xla") if backends.reads_stall(kind)] == ["xla"]
