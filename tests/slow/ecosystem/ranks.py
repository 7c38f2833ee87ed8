"""A training in several processes of one world, over gloo on the CPU."""

import datetime
import multiprocessing
import warnings
from collections.abc import Callable
from typing import Any

import polycast
import torch

from tests.slow.ecosystem.recipes import Batches, Kit, Trained
from tests.slow.ecosystem.runner import Job

distributed: Any = torch.distributed


def in_ranks(train: Callable[[Kit], Trained], kit: Kit, size: int) -> Trained:
    """Return what rank 0 has trained, with the losses of all ranks' shares as one."""
    # Forks of this process, which has imported everything and has no thread yet.
    fork = multiprocessing.get_context("fork")
    jobs = [Job(fork, _rank, train, kit, rank, size) for rank in range(size)]
    trained: list[Trained] = [job.result() for job in jobs]
    for other in trained[1:]:
        assert all(map(torch.equal, trained[0].weights, other.weights)), "the ranks' weights differ"
    losses = torch.tensor([other.losses for other in trained]).mean(0)
    return trained[0]._replace(losses=losses.tolist())


class Share(Batches):
    """This rank's part of the batches, which neighbouring ranks may share."""

    ranks_for_a_part = 1

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        parts = distributed.get_world_size() // self.ranks_for_a_part
        part = distributed.get_rank() // self.ranks_for_a_part
        self.items = [{name: value.chunk(parts)[part] for name, value in batch.items()} for batch in self.items]


def _rank(train: Callable[[Kit], Trained], kit: Kit, rank: int, size: int) -> Trained:
    warnings.filterwarnings("ignore", "TypedStorage is deprecated")  # by torch's own checkpoints
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
