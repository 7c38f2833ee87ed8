"""Skips: what one rank finds, all ranks know."""

from typing import Any

import polycast
import torch
from polycast import syncfree
from torch import nn

from tests.support.sharded.models import INF, MAKERS, SCALE, loss, model, placed, poison, whole
from tests.support.sharded.world import check, distributed, mesh, rank, size


def iterate(scaler: Any, optimizer: Any, layers: nn.Module, number: int, bad: int, unscales: bool = False) -> None:
    """Train once; the gradients of one iteration are poisoned."""
    scaler.scale(loss(layers, number)).backward()
    if number == bad:
        poison(layers)
    if unscales:
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()


@check
def what_one_rank_finds_all_know() -> None:
    """The skip, the scale, and the schedule, which follows the steps. The rank that found it has the name."""
    for unscales in (False, True):
        layers = model()
        optimizer = syncfree.AdamW(layers.named_parameters(), lr=1.0)
        scaler: Any = polycast.GradScaler("cpu", init_scale=SCALE)
        schedule = polycast.SkipAwareLR(optimizer, lambda steps: 0.5**steps, scaler)
        for number in range(3):
            iterate(scaler, optimizer, layers, number, bad=1, unscales=unscales)
            schedule.step()
            assert scaler.skipped(optimizer).item() == (number == 1)
            is_here = number == 1 and rank() == size() - 1
            assert scaler.non_finite(optimizer) == (["0.weight"] if is_here else [])
        assert scaler.skip_count(optimizer).item() == 1
        assert (scaler.get_scale(), schedule.get_last_lr()) == (SCALE / 2, [0.25])


@check
def a_plain_gradient_of_one_rank_counts_too() -> None:
    sharded_param, plain = placed(torch.ones(4, 3), "0").requires_grad_(), torch.ones(2, requires_grad=True)
    optimizer, scaler = syncfree.SGD([sharded_param, plain]), polycast.GradScaler("cpu", init_scale=SCALE)
    scaler.scale(torch.ones(1))
    sharded_param.grad, plain.grad = placed(torch.ones(4, 3), "0"), torch.ones(2)
    if rank() == 0:
        plain.grad[0] = INF
    scaler.step(optimizer)
    scaler.update()
    assert scaler.skipped(optimizer).item()
    assert scaler.get_scale() == SCALE / 2


@check
def optimizers_step_together_or_not_at_all() -> None:
    for skip_on_host in (False, True):
        first, second = model(), model(1)
        before = [whole(param).clone() for param in second.parameters()]
        optimizers = [
            syncfree.AdamW(first.parameters(), lr=0.1),
            torch.optim.AdamW(second.parameters(), lr=0.1, fused=True),
        ]
        scaler: Any = polycast.GradScaler("cpu", init_scale=SCALE, skip_on_host=skip_on_host)
        for number in range(2):
            scaler.scale(loss(first, number) + loss(second, number)).backward()
            if number == 0:
                poison(first)
            scaler.step_together(*optimizers)
            scaler.update()
            assert [scaler.skipped(optimizer).item() for optimizer in optimizers] == [number == 0] * 2
            after = [whole(param) for param in second.parameters()]
            assert all(map(torch.equal, after, before)) == (number == 0)
            for optimizer in optimizers:
                optimizer.zero_grad()


@check
def what_a_rank_finds_in_a_plain_model_keeps_the_shards_beside_it_together() -> None:
    for together in (True, False):
        for look in ("step", "unscale_", "clip_grad_norm"):
            sharded_param, plain = placed(torch.ones(4, 3), "0").requires_grad_(), torch.ones(2, requires_grad=True)
            optimizers = [syncfree.SGD([sharded_param], lr=1.0), syncfree.SGD([plain], lr=1.0)]
            scaler: Any = polycast.GradScaler("cpu", init_scale=SCALE)
            scaler.scale(torch.ones(1))
            sharded_param.grad, plain.grad = placed(torch.ones(4, 3), "0"), torch.ones(2)
            if rank() == size() - 1:
                plain.grad[0] = INF
            if look != "step":
                for optimizer in optimizers:
                    getattr(scaler, look)(optimizer, *([1.0] if look == "clip_grad_norm" else []))
            if together:
                scaler.step_together(*optimizers)
            else:
                list(map(scaler.step, optimizers))
            scaler.update()
            # Apart, each skips for itself, and the plain model is each rank's own.
            wanted = [True, True] if together else [False, rank() == size() - 1]
            assert [scaler.skipped(optimizer).item() for optimizer in optimizers] == wanted
            assert scaler.get_scale() == SCALE / 2


@check
def a_reported_skip_is_that_of_all_ranks() -> None:
    for kind in MAKERS:
        called: list[int] = []
        layers = model()
        optimizer = MAKERS[kind](layers.parameters())
        optimizer.register_step_post_hook(lambda *_, called=called: called.append(1))
        scaler: Any = polycast.GradScaler("cpu", init_scale=SCALE, skip_on_host=True)
        for number in range(3):
            iterate(scaler, optimizer, layers, number, bad=1)
        assert len(called) == 2


@check
def a_sum_that_overflows_is_found() -> None:
    """Each rank's share of a pending sum is finite, the sum is not."""
    param = placed(torch.ones(4, 3), "R").requires_grad_()
    optimizer, scaler = syncfree.SGD([param]), polycast.GradScaler("cpu", init_scale=SCALE)
    scaler.scale(torch.ones(1))
    share = torch.full((4, 3), 3e38)
    param.grad = distributed.tensor.DTensor.from_local(share, mesh(0), [distributed.tensor.Partial()])
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert scaler.skipped(optimizer).item() == (size() > 1)
