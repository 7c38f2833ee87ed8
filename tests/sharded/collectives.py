"""The collectives of a scaler's step: none for replicas, and for shards a sum for each dimension of their mesh."""

from collections.abc import Iterable
from unittest import mock

import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.distributed.tensor.debug import CommDebugMode

from tests.support.sharded.models import INF, give, leaves, loss, model, started
from tests.support.sharded.world import check, distributed, size

#: The largest norm, 0 for any, and its kind.
CLIPPING = [(0, 2.0), (1.0, 2.0), (1.0, INF)]


def collectives(params: Iterable[Tensor], max_norm: float, norm_type: float) -> list[str]:
    """Return the collectives of clipping, where there is a largest norm, of a step and of the scale's update."""
    optimizer, scaler = syncfree.AdamW(params, lr=0.05), started()
    reductions = mock.Mock(wraps=distributed.all_reduce)
    with CommDebugMode() as mode, mock.patch.object(distributed, "all_reduce", reductions):  # type: ignore[no-untyped-call]
        if max_norm:
            scaler.clip_grad_norm(optimizer, max_norm, norm_type)
        scaler.step(optimizer)
        scaler.update()
    assert mode.get_total_counts() == reductions.call_count  # there is no other collective
    return [call.args[1].name for call in reductions.call_args_list]


def trained(layers: nn.Module) -> Iterable[Tensor]:
    loss(layers, 0).backward()  # type: ignore[no-untyped-call]
    return layers.parameters()


@check
def a_step_of_shards_is_one_sum_for_what_is_found_and_the_norm() -> None:
    for clipping in CLIPPING:
        assert collectives(trained(model()), *clipping) == (["SUM"] if size() > 1 else [])


@check
def a_step_of_shards_in_many_ways_is_one_sum_for_each_mesh() -> None:
    for clipping in CLIPPING:
        params = leaves()  # on meshes of three shapes
        give(params, 0)
        assert collectives(params, *clipping) == (["SUM"] * 3 if size() > 1 else [])


@check
def what_a_plain_optimizer_finds_beside_a_sharded_one_is_one_more_sum() -> None:
    """Of optimizers that are sharded over one mesh each look is enough."""
    for plain, count in ((False, 2), (True, 2)):
        for together in (True, False):
            second = nn.Linear(8, 1) if plain else model(1)
            optimizers = [syncfree.AdamW(trained(layers)) for layers in (model(), second)]
            scaler = started()
            reductions = mock.Mock(wraps=distributed.all_reduce)
            with mock.patch.object(distributed, "all_reduce", reductions):
                if together:
                    scaler.step_together(*optimizers)
                else:
                    list(map(scaler.step, optimizers))
                scaler.update()
            assert reductions.call_count == (count if size() > 1 else 0)


@check
def a_step_of_replicas_is_no_collective() -> None:
    torch.manual_seed(0)
    for clipping in CLIPPING:
        assert collectives(trained(nn.parallel.DistributedDataParallel(nn.Linear(8, 4))), *clipping) == []
