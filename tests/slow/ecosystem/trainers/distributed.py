"""PyTorch with several processes: DDP, FSDP2, tensor parallelism, and checkpoints of another world size."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tests.slow.ecosystem.cells import in_ranks, trainer
from tests.slow.ecosystem.recipes import Batches, Kit, Task, Trained, named
from tests.slow.ecosystem.trainers.plain import Loop, loop, plain
from tests.support.sharded.models import whole

FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


class Sharded(Loop):
    """A loop on this rank's batches, with checkpoints of torch.distributed."""

    def state(self) -> dict[str, Any]:
        """Return the contents of a checkpoint: the model and the optimizer by the names of parameters, and the rest."""
        saved: dict[str, Any] = get_optimizer_state_dict(self.task, self.optimizer, options=FLAT)
        # A schedule makes a tensor of the learning rate, and a checkpoint is loaded before that.
        optimizer = {name: float(value) if name.endswith(".lr") else value for name, value in saved.items()}
        state: dict[str, Any] = {"model": get_model_state_dict(self.task), "optimizer": optimizer}
        state["scaler"] = self.scaler.state_dict()
        return state | ({} if self.schedule is None else {"schedule": self.schedule.state_dict()})

    def save(self, path: Path) -> None:
        save(self.state(), checkpoint_id=path)

    def load(self, path: Path) -> None:
        state = self.state()
        load(state, checkpoint_id=path)
        set_model_state_dict(self.task, state["model"])
        set_optimizer_state_dict(self.task, self.optimizer, state["optimizer"], options=FLAT)
        self.scaler.load_state_dict(state["scaler"])
        if self.schedule is not None:
            self.schedule.load_state_dict(state["schedule"])

    def trained(self) -> Trained:
        return super().trained()._replace(weights=[whole(param).clone() for param in self.task.parameters()])


def on_ranks(size: int, place: Callable[[Task], Any], ranks_for_a_part: int = 1, **halves: Any) -> Any:
    """Return a training run on so many ranks, each with its part of the batches."""
    batches = partial(Batches, ranks_for_a_part=ranks_for_a_part)
    train = partial(loop, make=partial(Sharded, wrap=place), batches=batches, **halves)
    return partial(in_ranks, train=train, size=size)


def fully_sharded(task: Task) -> Any:
    for layer in (task.net[0], task.net[2]):
        fully_shard(layer)
    return fully_shard(task)


def two_dimensional(task: Task) -> Any:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("shards", "tensors"))
    parallelize_module(task, mesh["tensors"], {"net.0": ColwiseParallel(), "net.2": RowwiseParallel()})
    return fully_shard(task, mesh=mesh["shards"])


def resharded(kit: Kit) -> Trained:
    """Train the first half on two ranks, and resume the second half on four ranks from its checkpoint."""
    first = on_ranks(2, fully_sharded, halves=(True, False))(kit)
    (kit.folder / "store").unlink()
    last = on_ranks(4, fully_sharded, halves=(False, True))(kit)
    return last._replace(losses=first.losses + last.losses)  # type: ignore[no-any-return]


SOME = named("bfloat16", "float16", "float16, clipped", "float16, a skip", "float16, all of it", "float16, resumed")
trainer("DDP, 2 ranks", on_ranks(2, nn.parallel.DistributedDataParallel), plain)
trainer("FSDP2, 4 ranks", on_ranks(4, fully_sharded), plain)
trainer("FSDP2 x tensor parallel, 2 x 2 ranks", on_ranks(4, two_dimensional, 2), plain, recipes=SOME)
trainer("checkpoint of 2 ranks in 4 (FSDP2)", resharded, plain, recipes=named("float16, resumed", "float16, all of it"))
