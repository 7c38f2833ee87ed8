"""Torch with several processes: DDP, FSDP2, tensor parallelism, pipelines, and checkpoints of another world."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
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

from tests.slow.ecosystem.cells import in_ranks, trainer
from tests.slow.ecosystem.recipes import Batches, Kit, Task, Trained, named
from tests.slow.ecosystem.trainers.plain import Loop, loop, plain

distributed: Any = torch.distributed


def whole(tensor: Tensor) -> Tensor:
    full = getattr(tensor, "full_tensor", None)
    result: Tensor = tensor.detach() if full is None else full().detach()
    return result


class Sharded(Loop):
    """A loop on this rank's share, whose checkpoints are torch.distributed's.

    The collectives of clipping, stepping and updating are counted.
    """

    def __init__(self, kit: Kit, place: Callable[[Task], Any]) -> None:
        super().__init__(kit, wrap=place)
        self.collectives: list[int] = []

    def step(self) -> None:
        with CommDebugMode() as counted:  # type: ignore[no-untyped-call]
            super().step()
        self.collectives.append(counted.get_total_counts())

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: the model by its names, and what saves and loads itself."""
        optimizer = ScaledOptimizer(self.task, self.optimizer, self.scaler)
        state: dict[str, Any] = {"model": get_model_state_dict(self.task), "optimizer": optimizer}
        return state | ({} if self.schedule is None else {"schedule": self.schedule.state_dict()})

    def save(self, path: Path) -> None:
        save(self.state(), checkpoint_id=path)

    def load(self, path: Path) -> None:
        state = self.state()
        load(state, checkpoint_id=path)
        set_model_state_dict(self.task, state["model"])
        if self.schedule is not None:
            self.schedule.load_state_dict(state["schedule"])

    def trained(self) -> Trained:
        weights = [whole(param).clone() for param in self.task.parameters()]
        notes = f"{max(self.collectives)} collectives in a step of the scaler"
        return super().trained()._replace(weights=weights, notes=notes)


def on_ranks(size: int, place: Callable[[Task], Any], ranks_for_a_part: int = 1, **halves: Any) -> Any:
    """Return the training of so many ranks, each with its share of the batches."""
    batches = partial(Batches, ranks_for_a_part=ranks_for_a_part)
    return partial(
        in_ranks, train=partial(loop, make=partial(Sharded, place=place), batches=batches, **halves), size=size
    )


def fully_sharded(task: Task) -> Any:
    for layer in (task.net[0], task.net[2]):  # type: ignore[index]
        fully_shard(layer)
    return fully_shard(task)


def two_dimensional(task: Task) -> Any:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("shards", "tensors"))
    parallelize_module(task, mesh["tensors"], {"net.0": ColwiseParallel(), "net.2": RowwiseParallel()})
    return fully_shard(task, mesh=mesh["shards"])


def resharded(kit: Kit) -> Trained:
    """Train the first half on two ranks, and the other on four from its checkpoint on."""
    first = on_ranks(2, fully_sharded, halves=(True, False))(kit)
    (kit.folder / "store").unlink()
    last = on_ranks(4, fully_sharded, halves=(False, True))(kit)
    return last._replace(losses=first.losses + last.losses)  # type: ignore[no-any-return]


class Stage(PipelineStage):
    """Torch's, without its greeting of 8 bytes that the neighbours receive into 4: gloo aborts."""

    def _get_init_p2p_neighbors_ops(self) -> list[Any]:
        return []


class Stages(Loop):
    """A pipeline of two stages, whose activations are received into buffers that each step writes again."""

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        rank, layers = distributed.get_rank(), list(self.task.net.children())
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
    run = Stages(kit)
    with kit.autocast() if one_region else nullcontext():
        run.run(Batches(kit.recipe))
    parts: list[Any] = [None, None]
    distributed.all_gather_object(parts, [param.detach() for param in run.part.parameters()])
    losses: list[Any] = [None]
    if kit.losses:
        losses = [(torch.stack(kit.losses).reshape(-1, 4).mean(1) / run.scale).tolist()]
    distributed.broadcast_object_list(losses, src=1)
    return Trained([*parts[0], *parts[1]], losses[0], str(kit.recipe.dtype), run.optimizer.param_groups[0]["lr"])


SOME = named("bfloat16", "float16", "float16, clipped", "float16, a skip", "float16, all of it", "float16, resumed")
STAGED = named("float32", "bfloat16", "float16")
trainer("DDP, 2 ranks", on_ranks(2, nn.parallel.DistributedDataParallel), plain)
trainer("FSDP2, 4 ranks", on_ranks(4, fully_sharded), plain)
trainer("FSDP2 x tensor parallel, 2 x 2 ranks", on_ranks(4, two_dimensional, 2), plain, recipes=SOME)
trainer("checkpoint of 2 ranks in 4 (FSDP2)", resharded, plain, recipes=named("float16, resumed", "float16, all of it"))
trainer("pipeline, 2 stages", partial(in_ranks, train=stages, size=2), plain, recipes=STAGED)
in_one_region = partial(in_ranks, train=partial(stages, one_region=True), size=2)
trainer("pipeline, one region for all steps", in_one_region, plain, recipes=STAGED)
