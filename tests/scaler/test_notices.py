"""What a gradient scaler tells, once: that an optimizer makes it read, and that one does nothing but skip."""

import warnings
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from polycast import backends, syncfree

from tests.scaler.common import INF, Loop, started

READS = (
    "each step of SGD waits until the device has told whether to skip it; an optimizer of polycast.syncfree does not"
)
SKIPS = (
    "20 or more steps of SGD were skipped in a row: its gradients are not finite, whatever the scale; "
    "scaler.non_finite(optimizer) names them"
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


GUARD = {"init_scale": 1.0, "min_scale": 1.0, "max_scale": 1.0}


@pytest.mark.parametrize(
    ("options", "grads", "texts"),
    [
        ({}, [INF] * 30, [SKIPS]),
        ({}, [INF] * 9, []),
        ({"init_scale": 1.0}, [*[INF] * 25, 1.0], []),
        ({"init_scale": 2.0**80}, [INF] * 30, []),  # it is on its way down
        (GUARD, [INF] * 30, [SKIPS]),
        (GUARD, [INF, 1.0] * 30, []),
        ({"enabled": False}, [INF] * 30, []),
    ],
)
@pytest.mark.parametrize("library", [syncfree, torch.optim], ids=["sync-free", "torch"])
def test_many_skips_in_a_row_are_told_once_where_the_scale_is_read(
    library: Any, options: dict[str, Any], grads: list[float], texts: list[str]
) -> None:
    scaler = started(**options)
    loop = Loop(scaler, library)

    def train() -> None:
        for grad in grads:
            loop.param.grad = torch.tensor(grad)
            scaler.step(loop.optimizer)
            scaler.update()

    assert told(train) == []
    assert told(scaler.state_dict) == [(text, __file__) for text in texts]
    assert told(train) == told(scaler.get_scale) == []
