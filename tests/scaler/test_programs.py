"""Programs of scaler calls in any order, against torch's scaler, and batches that are dropped after a look at them."""

from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.optimizers import clones, parameters, set_grads
from tests.scaler.test_skips import KINDS, OPTIMIZERS
from tools.random_scaler import compare_all

SCALE = 256.0
INF = float("inf")
Look = Callable[[Any, Any], object]
OURS: dict[str, Look] = {
    "unscale_": lambda scaler, optimizer: scaler.unscale_(optimizer),
    "clip_grad_norm": lambda scaler, optimizer: scaler.clip_grad_norm(optimizer, 0.1),
    "both": lambda scaler, optimizer: (scaler.unscale_(optimizer), scaler.clip_grad_norm(optimizer, 0.1)),
}
LOOKS = pytest.mark.parametrize("look", OURS)


def test_random_programs_are_torchs() -> None:
    counts = compare_all(range(40))
    assert counts["step"] > 100
    assert {"clip_grad_norm: RuntimeError", "unscale_: RuntimeError", "update: AssertionError"} <= counts.keys()


def started(scaler: Any) -> Any:
    scaler.scale(torch.ones(1))
    return scaler


def give(scaler: Any, params: list[Tensor], seed: int, bad: bool = False) -> None:
    """Give the gradients of a new batch."""
    scaler.scale(torch.ones(1))
    set_grads(params, seed, scaler.get_scale() * (INF if bad else 1.0))


@KINDS
@LOOKS
def test_the_batch_after_a_dropped_one_is_refused(look: str, kind: str) -> None:
    params = parameters((3,), (2, 2))
    scaler, optimizer = started(polycast.GradScaler(init_scale=SCALE)), OPTIMIZERS[kind](params)
    give(scaler, params, 0, bad=True)
    OURS[look](scaler, optimizer)
    give(scaler, params, 1)  # what came before was dropped, without an update
    with pytest.raises(RuntimeError, match=r"^unscale_\(\) has already been called on this optimizer since the last"):
        OURS[look](scaler, optimizer)


@KINDS
@LOOKS
def test_an_update_drops_a_batch_and_counts_what_was_found(look: str, kind: str) -> None:
    params = parameters((3,), (2, 2))
    others = clones(params)
    ours = started(polycast.GradScaler(init_scale=SCALE, growth_interval=3))
    theirs = started(Scaler("cpu", init_scale=SCALE, growth_interval=3))
    optimizer, other = OPTIMIZERS[kind](params), OPTIMIZERS["for-loop"](others)
    for number, (bad, dropped) in enumerate([(0, 0), (1, 1), (0, 1), (0, 0), (0, 1), (0, 0), (1, 0), (0, 0)]):
        for scaler, leaves in ((ours, params), (theirs, others)):
            give(scaler, leaves, number, bad=bool(bad))
        OURS[look](ours, optimizer)
        theirs.unscale_(other)
        if look != "unscale_":
            nn.utils.clip_grad_norm_(others, 0.1)
        if not dropped:
            ours.step(optimizer)
            theirs.step(other)
        ours.update()
        theirs.update()
        assert ours.state_dict() == theirs.state_dict()
        torch.testing.assert_close(params, others, rtol=2e-6, atol=2e-6)
    assert ours.skip_count(optimizer).item() == 1  # of the steps
    assert ours.get_scale() == SCALE / 2


@KINDS
@LOOKS
def test_another_optimizers_batch_may_be_scaled_between_look_and_step(look: str, kind: str) -> None:
    """As in the documents' example of several losses."""
    params, others = parameters((3,)), parameters((3,), seed=1)
    scaler = started(polycast.GradScaler(init_scale=SCALE))
    first, second = OPTIMIZERS[kind](params), OPTIMIZERS[kind](others)
    for number in range(2):
        for leaves, optimizer in ((params, first), (others, second)):
            give(scaler, leaves, number)
            OURS[look](scaler, optimizer)
        before = clones([*params, *others])
        for optimizer in (first, second):
            scaler.step(optimizer)
        scaler.update()
        assert not any(map(torch.equal, before, [*params, *others]))
