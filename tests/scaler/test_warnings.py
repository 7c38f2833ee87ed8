"""What a gradient scaler tells, once each: that an optimizer makes it read."""

import warnings

import polycast
import pytest
import torch
from polycast import backends, syncfree

READS = (
    "each step of SGD waits until the device has told whether to skip it; an optimizer of polycast.syncfree does not"
)


def train(scaler: polycast.GradScaler, optimizer: torch.optim.Optimizer, steps: int = 3) -> None:
    (weight,) = optimizer.param_groups[0]["params"]
    for _ in range(steps):
        weight.grad = torch.ones_like(weight)
        scaler.scale(torch.ones(1))
        scaler.step(optimizer)
        scaler.update()


def leaf() -> list[torch.Tensor]:
    return [torch.ones(1, requires_grad=True)]


def messages(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in caught]


def test_where_reads_stall_it_names_the_remedy_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "reads_stall", lambda kind: kind == "cpu")
    scaler = polycast.GradScaler()
    with pytest.warns(UserWarning) as caught:
        train(scaler, torch.optim.SGD(leaf()))
        train(scaler, torch.optim.SGD(leaf()))
    assert messages(list(caught)) == [READS]
    assert [warning.filename for warning in caught] == [__file__]


def test_of_a_sync_free_optimizer_there_is_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "reads_stall", lambda kind: kind == "cpu")
    train(polycast.GradScaler(), syncfree.SGD(leaf()))


@pytest.mark.parametrize("kind", ["cpu", "cuda", "xpu"])
def test_elsewhere_a_read_is_cheap(kind: str) -> None:
    assert not backends.reads_stall(kind)
    assert backends.reads_stall("xla")
    train(polycast.GradScaler(), torch.optim.SGD(leaf()))
