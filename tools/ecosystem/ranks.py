"""A training in several processes of one world, over gloo on the CPU."""

import datetime
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polycast
import torch

from tools.ecosystem.recipes import Batches, Kit, Trained
from tools.ecosystem.runner import in_process

distributed: Any = torch.distributed


def in_ranks(train: Callable[[Kit], Trained], kit: Kit, size: int) -> Trained:
    """Return what rank 0 has trained, with the losses of all ranks' shares as one."""
    with ThreadPoolExecutor(size) as pool:
        trained = list(pool.map(lambda rank: in_process(_rank, train, kit, rank, size), range(size)))
    for other in trained[1:]:
        assert all(map(torch.equal, trained[0].weights, other.weights)), "the ranks' weights differ"
    losses = torch.tensor([other.losses for other in trained]).mean(0)
    return trained[0]._replace(losses=losses.tolist())


def share(batches: list[dict[str, torch.Tensor]], ranks: int, rank: int) -> list[dict[str, torch.Tensor]]:
    """Return this rank's part of each batch."""
    return [{name: value.chunk(ranks)[rank] for name, value in batch.items()} for batch in batches]


class Share(Batches):
    """This rank's part of the batches."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.items = share(self.items, distributed.get_world_size(), distributed.get_rank())


def _rank(train: Callable[[Kit], Trained], kit: Kit, rank: int, size: int) -> Trained:
    if not kit.ours:
        polycast.uninstall()
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{kit.folder / 'store'}",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=60),
    )
    trained = train(kit)
    distributed.barrier()
    distributed.destroy_process_group()
    return trained
