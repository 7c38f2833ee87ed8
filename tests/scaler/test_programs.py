"""Programs of scaler calls in any order, against torch's scaler, and batches that are dropped after a look at them."""

from typing import Any

import polycast
import pytest
import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler

from tests.optimizers import clones, parameters
from tests.scaler.common import INF, KINDS, LOOKS, OPTIMIZERS, SCALE, SHAPES, give, started
from tools.random_scaler import compare_all

EACH_LOOK = pytest.mark.parametrize("look", ["unscale_", "clip_grad_norm"])


def test_random_programs_are_torchs() -> None:
    counts = compare_all(range(40))
    assert counts["step"] > 100
    assert {"clip_grad_norm: RuntimeError", "unscale_: RuntimeError", "update: AssertionError"} <= counts.keys()


def new_batch(scaler: Any, params: list[Tensor], number: int, bad: bool = False) -> None:
    scaler.scale(torch.ones(1))
    give(params, number, INF if bad else None, scale=scaler.get_scale())


@KINDS
@EACH_LOOK
def test_the_batch_after_a_dropped_one_is_refused(look: str, kind: str) -> None:
    params = parameters(*SHAPES)
    scaler, optimizer = started(), OPTIMIZERS[kind](params)
    new_batch(scaler, params, 0, bad=True)
    LOOKS[look](scaler, optimizer)
    new_batch(scaler, params, 1)  # what came before was dropped, without an update
    with pytest.raises(RuntimeError, match=r"^unscale_\(\) has already been called .* also after one that is dropped;"):
        LOOKS[look](scaler, optimizer)


@KINDS
@EACH_LOOK
def test_an_update_drops_a_batch_and_counts_what_was_found(look: str, kind: str) -> None:
    params = parameters(*SHAPES)
    others = clones(params)
    ours, theirs = polycast.GradScaler(init_scale=SCALE, growth_interval=3), Scaler("cpu", SCALE, growth_interval=3)
    optimizer, other = OPTIMIZERS[kind](params), OPTIMIZERS["for-loop"](others)
    for number, (bad, dropped) in enumerate([(0, 0), (1, 1), (0, 1), (0, 0), (0, 1), (0, 0), (1, 0), (0, 0)]):
        for scaler, leaves in ((ours, params), (theirs, others)):
            new_batch(scaler, leaves, number, bad=bool(bad))
        LOOKS[look](ours, optimizer)
        theirs.unscale_(other)
        if look == "clip_grad_norm":
            nn.utils.clip_grad_norm_(others, 1.0)
        if not dropped:
            ours.step(optimizer)
            theirs.step(other)
        ours.update()
        theirs.update()
        assert ours.state_dict() == theirs.state_dict()
        torch.testing.assert_close(params, others, rtol=2e-6, atol=2e-6)
    assert ours.skip_count(optimizer).item() == 1  # of the steps


@KINDS
@EACH_LOOK
def test_another_optimizers_batch_may_be_scaled_between_look_and_step(look: str, kind: str) -> None:
    """As in the documents' example of several losses."""
    pair = [parameters((3,), seed=seed) for seed in range(2)]
    scaler, optimizers = started(), [OPTIMIZERS[kind](params) for params in pair]
    for number in range(2):
        for params, optimizer in zip(pair, optimizers, strict=True):
            new_batch(scaler, params, number)
            LOOKS[look](scaler, optimizer)
        before = clones([*pair[0], *pair[1]])
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        assert not any(map(torch.equal, before, [*pair[0], *pair[1]]))
