"""Torch with several processes: DDP, FSDP2, tensor parallelism, pipelines, and checkpoints of another world."""

import threading
from collections.abc import Callable
from typing import Any

import polycast
import torch
import torch.distributed.checkpoint as dcp
from accelerate import Accelerator
from polycast.integrations.torchtitan import ScaledOptimizer
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tools.ecosystem.cells import named, trainer
from tools.ecosystem.ranks import Share, distributed, in_ranks
from tools.ecosystem.recipes import RECIPES, SCALE, Batches, Kit, Task, Trained
from tools.ecosystem.trainers.plain import Loop, plain

Place = Callable[[Task], nn.Module]


class Counted(Loop):
    """A loop whose steps are counted: the collectives of clipping, stepping and updating."""

    def __init__(self, kit: Kit, task: Task, place: Place) -> None:
        self.model = place(task)
        super().__init__(kit, task)
        self.collectives: list[int] = []

    def step(self) -> None:
        with CommDebugMode() as counted:
            super().step()
        self.collectives.append(counted.get_total_counts())


def whole(tensor: Tensor) -> Tensor:
    full = getattr(tensor, "full_tensor", None)
    result: Tensor = tensor.detach() if full is None else full().detach()
    return result


def sharded_loop(kit: Kit, place: Place) -> Trained:
    """Train on this rank's share; a resumed training goes through torch.distributed.checkpoint."""
    recipe = kit.recipe
    run = Counted(kit, kit.task(), place)
    if recipe.resume:
        run.run(Share(recipe).items[: recipe.resume * recipe.accumulate])
        dcp.save(saved(run), checkpoint_id=kit.folder / "checkpoint")
        run = Counted(kit, kit.task(), place)
        state = saved(run)
        dcp.load(state, checkpoint_id=kit.folder / "checkpoint")
        set_model_state_dict(run.task, state["model"])
        if run.schedule is not None:
            run.schedule.load_state_dict(state["schedule"])
    run.run(Share(recipe, first=recipe.resume))
    trained = kit.trained(run.task, run.optimizer)
    count = max(run.collectives)
    return trained._replace(
        weights=[whole(param).clone() for param in run.task.parameters()],
        notes=f"{count} collectives in a step of the scaler",
    )


def saved(run: Loop) -> dict[str, Any]:
    """Return what a checkpoint holds: the model by its names, and what saves and loads itself."""
    state: dict[str, Any] = {
        "model": get_model_state_dict(run.task),
        "optimizer": ScaledOptimizer(run.task, run.optimizer, run.scaler),
    }
    if run.schedule is not None:
        state["schedule"] = run.schedule.state_dict()
    return state


def replicated(task: Task) -> nn.Module:
    return nn.parallel.DistributedDataParallel(task)


def ddp_on_a_rank(kit: Kit) -> Trained:
    return sharded_loop(kit, replicated)


@trainer("DDP, 2 ranks", beside=plain)
def ddp(kit: Kit) -> Trained:
    return in_ranks(ddp_on_a_rank, kit, 2)


def fully_sharded(task: Task) -> nn.Module:
    for layer in (task.net[0], task.net[2]):  # type: ignore[index]
        fully_shard(layer)
    return fully_shard(task)


def fsdp_on_a_rank(kit: Kit) -> Trained:
    return sharded_loop(kit, fully_sharded)


@trainer("FSDP2, 4 ranks", beside=plain)
def fsdp(kit: Kit) -> Trained:
    return in_ranks(fsdp_on_a_rank, kit, 4)
