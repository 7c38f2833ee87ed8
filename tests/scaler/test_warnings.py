"""What a gradient scaler tells, once each: that it is not needed, and that an optimizer makes it read."""

import warnings

import polycast
import pytest
import torch
from polycast import backends, region, syncfree

NEEDLESS = (
    "gradients need no scaling: the last region ran in bfloat16, which has float32's range; "
    "GradScaler(enabled=False) leaves it out"
)
READS = (
    "each step of SGD waits until the device has told whether to skip it; an optimizer of polycast.syncfree does not"
)


@pytest.fixture(autouse=True)
def _no_region_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region, "_seen", {})


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


def test_after_a_bfloat16_region_it_says_once_that_it_is_not_needed() -> None:
    with polycast.autocast("cpu", torch.bfloat16):
        pass
    with pytest.warns(UserWarning) as caught:
        train(polycast.GradScaler(), syncfree.SGD(leaf()))
    assert messages(list(caught)) == [NEEDLESS]
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    "last", [("cpu", torch.bfloat16, False), ("cpu", torch.float16, True), ("xpu", torch.bfloat16, True), None], ids=str
)
def test_otherwise_it_says_nothing(last: tuple[str, torch.dtype, bool] | None) -> None:
    if last is not None:
        region.autocast(last[0], last[1], enabled=last[2])
    train(polycast.GradScaler(), syncfree.SGD(leaf()))  # warnings are errors


def test_beside_a_float16_region_it_says_nothing() -> None:
    """A model may be evaluated in bfloat16 between the steps of its training in float16."""
    for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
        region.autocast("cpu", dtype)
    train(polycast.GradScaler(), syncfree.SGD(leaf()))


def test_disabled_it_says_nothing() -> None:
    region.autocast("cpu", torch.bfloat16)
    train(polycast.GradScaler(enabled=False), syncfree.SGD(leaf()))


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
