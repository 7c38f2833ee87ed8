"""Skips: what one rank finds, all ranks know. More of it in random programs: programs.py."""

import polycast
import pytest
import torch
from polycast import syncfree

from tests.support.sharded.models import INF, MAKERS, SCALE, loss, model, placed, poison, started, whole
from tests.support.sharded.world import check, distributed, mesh, rank, size


@check
def a_schedule_follows_the_steps_of_all_ranks() -> None:
    layers = model()
    optimizer, scaler = syncfree.AdamW(layers.parameters(), lr=1.0), started()
    schedule = polycast.SkipAwareLR(optimizer, lambda steps: 0.5**steps, scaler)
    for number in range(3):
        scaler.scale(loss(layers, number)).backward()
        if number == 1:
            poison(layers)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        schedule.step()
    assert scaler.skip_count(optimizer).item() == 1
    assert (scaler.get_scale(), schedule.get_last_lr()) == (SCALE / 2, [0.25])


@check
def a_plain_gradient_of_one_rank_counts_too() -> None:
    sharded_param, plain = placed(torch.ones(4, 3), "0").requires_grad_(), torch.ones(2, requires_grad=True)
    optimizer, scaler = syncfree.SGD([sharded_param, plain]), started()
    sharded_param.grad, plain.grad = placed(torch.ones(4, 3), "0"), torch.ones(2)
    if rank() == 0:
        plain.grad[0] = INF
    scaler.step(optimizer)
    scaler.update()
    assert scaler.skipped(optimizer).item()
    assert scaler.get_scale() == SCALE / 2


@check
def a_skip_on_the_host_is_that_of_all_ranks_and_all_optimizers() -> None:
    for kind in MAKERS:
        for together in (False, True):
            called: list[int] = []
            layers, second = model(), model(1)
            before = [whole(param).clone() for param in second.parameters()]
            optimizers = [MAKERS[kind](layers.parameters()), torch.optim.AdamW(second.parameters(), fused=True)]
            optimizers[0].register_step_post_hook(lambda *_, called=called: called.append(1))
            scaler = started(skip_on_host=True)
            for number in range(3):
                scaler.scale(loss(layers, number) + loss(second, number)).backward()
                if number == 0:
                    poison(layers)
                if together:
                    scaler.step_together(*optimizers)
                else:
                    list(map(scaler.step, optimizers))
                scaler.update()
                assert [scaler.skipped(optimizer).item() for optimizer in optimizers] == [
                    number == 0,
                    number == 0 and together,
                ]
                if number == 0:
                    assert all(map(torch.equal, map(whole, second.parameters()), before)) == together
                for optimizer in optimizers:
                    optimizer.zero_grad()
            assert len(called) == 2


@check
def a_sum_that_overflows_is_found() -> None:
    """Each rank's share of a pending sum is finite, the sum is not."""
    param = placed(torch.ones(4, 3), "R").requires_grad_()
    optimizer, scaler = syncfree.SGD([param]), started()
    share = torch.full((4, 3), 3e38)
    param.grad = distributed.tensor.DTensor.from_local(share, mesh(0), [distributed.tensor.Partial()])
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert scaler.skipped(optimizer).item() == (size() > 1)


@check
def without_a_gradient_on_any_rank_a_step_is_refused_as_in_stock() -> None:
    for looks in ((), ("unscale_",), ("clip_grad_norm", 1.0)):
        optimizer, scaler = syncfree.SGD([placed(torch.ones(4, 3), "0").requires_grad_()]), started()
        for look, *arguments in [looks] if looks else []:
            getattr(scaler, look)(optimizer, *arguments)
        with pytest.raises(AssertionError, match=r"^No inf checks were recorded for this optimizer"):
            scaler.step(optimizer)
