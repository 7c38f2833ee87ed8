"""GradScaler on XLA: nothing is compiled anew, and what torch_xla does with gradients; the rest is tests/scaler's."""

import polycast
import pytest
import torch
from polycast import syncfree
from torch import nn

from tests.scaler.test_training import Training
from tests.support.probe import HAS_XLA, NO_XLA
from tests.support.xla import Traffic, sync

pytestmark = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)


def test_iterations_compile_nothing_after_the_third() -> None:
    run = Training("xla")
    traffic, compiles = Traffic(), []
    for number in range(20):
        run.iterate(skips=number % 7 == 4)
        compiles.append(traffic.compiles())
    assert compiles[2:] == [compiles[2]] * 18


def test_expanded_gradients_are_unscaled_and_clipped_each_for_itself() -> None:
    """Autograd on XLA hands out gradients that are expanded from one element, and here all from the same one."""
    params = [nn.Parameter(torch.ones(size, device="xla")) for size in (1, 3, 1)]
    optimizer, scaler = syncfree.SGD(params, lr=1.0), polycast.GradScaler()
    scaler.scale(torch.stack([param.sum() for param in params]).sum()).backward()  # type: ignore[no-untyped-call]
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(params, 5**0.5 / 2, foreach=False)
    scaler.step(optimizer)
    for param in params:
        torch.testing.assert_close(param.detach().cpu(), torch.full(param.shape, 0.5))


def test_gradients_reduced_before_the_step() -> None:
    """Seeds 000 and 004: xm.all_reduce of fetched gradients."""
    import torch_xla.core.xla_model as xm
    from torch_xla import runtime

    weight = nn.Parameter(torch.ones(2, device="xla"))
    optimizer, scaler = syncfree.SGD([weight], lr=1.0), polycast.GradScaler()
    scaler.scale((weight * 3).sum()).backward()  # type: ignore[no-untyped-call]
    gradients = xm._fetch_gradients(optimizer)
    xm.all_reduce("sum", gradients, scale=1.0 / runtime.world_size())
    scaler.step(optimizer)
    scaler.update()
    sync()
    assert weight.tolist() == [-2.0, -2.0]
