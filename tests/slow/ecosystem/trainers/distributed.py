"""Torch with several processes: DDP, FSDP2, tensor parallelism, pipelines, and checkpoints of another world."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from polycast.integrations.torchtitan import ScaledOptimizer
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tests.slow.ecosystem.cells import named, trainer
from tests.slow.ecosystem.ranks import Share, distributed, in_ranks
from tests.slow.ecosystem.recipes import Batches, Kit, Task, Trained
from tests.slow.ecosystem.trainers.plain import Loop, plain

Place = Callable[[Task], Any]


class Counted(Loop):
    """A loop whose steps are counted: the collectives of clipping, stepping and updating."""

    def __init__(self, kit: Kit, task: Task, place: Place) -> None:
        super().__init__(kit, task, place)
        self.collectives: list[int] = []

    def step(self) -> None:
        with CommDebugMode() as counted:  # type: ignore[no-untyped-call]
            super().step()
        self.collectives.append(counted.get_total_counts())


def whole(tensor: Tensor) -> Tensor:
    full = getattr(tensor, "full_tensor", None)
    result: Tensor = tensor.detach() if full is None else full().detach()
    return result


def sharded_loop(
    kit: Kit, place: Place, shares: type[Share] = Share, begin: bool = False, end: bool = False
) -> Trained:
    """Train on this rank's share; a resumed training goes through torch.distributed.checkpoint.

    With ``end`` it ends at its checkpoint, with ``begin`` it goes on from one.
    """
    recipe, folder = kit.recipe, kit.folder / "checkpoint"
    run = Counted(kit, kit.task(), place)
    if recipe.resume and not begin:
        run.run(shares(recipe).items[: recipe.resume * recipe.accumulate])
        save(saved(run), checkpoint_id=folder)
    if recipe.resume and not end:
        run = Counted(kit, kit.task(), place)
        state = saved(run)
        load(state, checkpoint_id=folder)
        set_model_state_dict(run.task, state["model"])
        if run.schedule is not None:
            run.schedule.load_state_dict(state["schedule"])
    if not end:
        run.run(shares(recipe, first=recipe.resume))
    return kit.trained(run.task, run.optimizer)._replace(
        weights=[whole(param).clone() for param in run.task.parameters()],
        notes=f"{max(run.collectives)} collectives in a step of the scaler",
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


def fully_sharded(task: Task) -> Any:
    for layer in (task.net[0], task.net[2]):  # type: ignore[index]
        fully_shard(layer)
    return fully_shard(task)


def fsdp_on_a_rank(kit: Kit) -> Trained:
    return sharded_loop(kit, fully_sharded)


@trainer("FSDP2, 4 ranks", beside=plain)
def fsdp(kit: Kit) -> Trained:
    return in_ranks(fsdp_on_a_rank, kit, 4)


SOME = [named(name) for name in ("bfloat16", "float16", "float16, clipped", "float16, a skip", "float16, all of it")]
PLAN = {"net.0": ColwiseParallel(), "net.2": RowwiseParallel()}


def two_dimensional(task: Task) -> Any:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("shards", "tensors"))
    parallelize_module(task, mesh["tensors"], PLAN)
    return fully_shard(task, mesh=mesh["shards"])


class SharePairs(Share):
    """The part of the batches that this rank's pair of tensor-parallel ranks has."""

    ranks_for_a_part = 2


def two_dimensional_on_a_rank(kit: Kit) -> Trained:
    return sharded_loop(kit, two_dimensional, SharePairs)


@trainer("FSDP2 x tensor parallel, 2 x 2 ranks", beside=plain, recipes=[*SOME, named("float16, resumed")])
def fsdp_and_tensor_parallel(kit: Kit) -> Trained:
    return in_ranks(two_dimensional_on_a_rank, kit, 4)


def half_a_training(kit: Kit) -> Trained:
    """The first half of a resumed training, which ends with its checkpoint."""
    return sharded_loop(kit, fully_sharded, end=True)


def other_half(kit: Kit) -> Trained:
    return sharded_loop(kit, fully_sharded, begin=True)


@trainer(
    "checkpoint of 2 ranks in 4 (FSDP2)", beside=plain, recipes=[named("float16, resumed"), named("float16, all of it")]
)
def resharded(kit: Kit) -> Trained:
    first = in_ranks(half_a_training, kit, 2)
    (kit.folder / "store").unlink()
    last = in_ranks(other_half, kit, 4)
    return last._replace(losses=first.losses + last.losses)


class Stage(PipelineStage):
    """Torch's, without its greeting of 8 bytes that the neighbours receive into 4: gloo aborts."""

    def _get_init_p2p_neighbors_ops(self) -> list[Any]:
        return []


class Stages(Loop):
    """A pipeline of two stages, whose activations are received into buffers that each step writes again."""

    def __init__(self, kit: Kit, task: Task) -> None:
        super().__init__(kit, task)
        rank, layers = distributed.get_rank(), list(task.net.children())
        self.part = nn.Sequential(*(layers[2:] if rank else layers[:2]))
        self.optimizer = kit.optimizer(self.part.parameters())
        stage = Stage(self.part, rank, 2, torch.device("cpu"))
        self.pipeline = ScheduleGPipe(stage, n_microbatches=4, loss_fn=self.scaled_loss)
        self.scale = self.scaler.scale(torch.ones(()))  # the first stage scales no loss, and divides by the scale

    def scaled_loss(self, outputs: Tensor, labels: Tensor) -> Any:
        self.kit.dtypes.append(outputs.dtype)
        return self.scaler.scale(nn.functional.mse_loss(outputs.float(), labels))

    def run(self, batches: Any) -> None:
        for batch in batches:
            losses: list[Tensor] = []
            with self.kit.autocast():
                if distributed.get_rank():
                    self.pipeline.step(target=batch["labels"], losses=losses)
                else:
                    self.pipeline.step(batch["inputs"])
            self.kit.losses.extend(loss.detach() for loss in losses)
            self.step()


def stages(kit: Kit, one_region: bool = False) -> Trained:
    run = Stages(kit, kit.task())
    with kit.autocast() if one_region else nullcontext():
        run.run(Batches(kit.recipe))
    parts: list[Any] = [None, None]
    distributed.all_gather_object(parts, [param.detach() for param in run.part.parameters()])
    losses: list[Any] = [None]
    if kit.losses:
        losses = [(torch.stack(kit.losses).reshape(-1, 4).mean(1) / run.scale).tolist()]
    distributed.broadcast_object_list(losses, src=1)
    return Trained([*parts[0], *parts[1]], losses[0], str(kit.recipe.dtype), run.optimizer.param_groups[0]["lr"])


def stages_in_one_region(kit: Kit) -> Trained:
    return stages(kit, one_region=True)


STAGED = [named("float32"), named("bfloat16"), named("float16")]


@trainer("pipeline, 2 stages", beside=plain, recipes=STAGED)
def pipeline(kit: Kit) -> Trained:
    return in_ranks(stages, kit, 2)


@trainer("pipeline, one region for all steps", beside=plain, recipes=STAGED)
def pipeline_in_one_region(kit: Kit) -> Trained:
    return in_ranks(stages_in_one_region, kit, 2)
