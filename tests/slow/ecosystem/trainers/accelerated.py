"""Accelerate: an ``Accelerator`` around the loop, alone and with FSDP2 in two processes."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedType, PartialState
from accelerate.utils import FullyShardedDataParallelPlugin, GradScalerKwargs
from polycast.integrations import accelerate

from tests.slow.ecosystem.cells import in_ranks, trainer
from tests.slow.ecosystem.recipes import RECIPES, SCALE, Batches, Kit, Trained, named
from tests.slow.ecosystem.trainers.plain import loop, plain

PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


class Accelerated:
    """A loop of Accelerate's documents."""

    def __init__(self, kit: Kit, make: type[Accelerator] = Accelerator) -> None:
        self.kit, recipe = kit, kit.recipe
        self.accelerator = make(
            cpu=True,
            mixed_precision=PRECISIONS[recipe.precision],
            gradient_accumulation_steps=recipe.accumulate,
            step_scheduler_with_optimizer=True,
            kwargs_handlers=[GradScalerKwargs(init_scale=SCALE)],
        )
        if kit.line and recipe.scales:
            accelerate.use(self.accelerator)
        task = kit.task()
        optimizer = kit.optimizer(task.parameters())
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
        self.task, self.optimizer, self.schedule = self.accelerator.prepare(task, optimizer, schedule)

    def run(self, batches: Any) -> None:
        clip = self.kit.recipe.clip
        for batch in batches:
            with self.accelerator.accumulate(self.task):
                with self.accelerator.autocast():  # as it wraps models by itself, but those of FSDP2
                    loss = self.task(**batch)["loss"]
                self.accelerator.backward(loss)
                if clip and self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.task.parameters(), clip)
                self.optimizer.step()
                if self.kit.recipe.schedule:  # Accelerate holds it where the step was skipped
                    self.schedule.step()
                self.optimizer.zero_grad()

    def save(self, path: Path) -> None:
        self.accelerator.save_state(path)
        self.accelerator.wait_for_everyone()

    def load(self, path: Path) -> None:
        self.accelerator.load_state(path)

    def trained(self) -> Trained:
        return self.kit.trained(self.accelerator.unwrap_model(self.task), self.optimizer)


class ShardingAccelerator(Accelerator):  # type: ignore[misc]
    """Shards by FSDP2 on the CPU, which Accelerate would allow on an accelerator only; all else is its own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="no_wrap", cpu_offload=False)
        self.state.fsdp_plugin = plugin
        for state in (self.state, PartialState()):  # the one is brought up to date from the other
            state.distributed_type = DistributedType.FSDP


def sharded_on_a_rank(kit: Kit) -> Trained:
    """Train on this rank's share; the whole of a resumed training goes through save_state and load_state."""
    world: Any = torch.distributed
    rank, size = str(world.get_rank()), str(world.get_world_size())
    os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=size, LOCAL_WORLD_SIZE=size, OMP_NUM_THREADS="1")
    trained = loop(kit, partial(Accelerated, make=ShardingAccelerator), partial(Batches, ranks_for_a_part=1))
    shards: list[Any] = trained.weights
    return trained._replace(weights=[shard.full_tensor() for shard in shards])


LINE = "`accelerate.use(accelerator)`"
accelerated = partial(loop, make=Accelerated)
# Accelerate runs float16 on the CPU in float32, so it is compared with torch's own loop.
for each in RECIPES:
    trainer("accelerate", accelerated, plain if each.scales else accelerated, line=LINE, recipes=[each])
SHARDED = named("bfloat16", "float16, clipped", "float16, a skip", "float16, resumed")
sharded = partial(in_ranks, train=sharded_on_a_rank, size=2)
trainer("accelerate, FSDP2 on 2 ranks", sharded, plain, line=LINE, recipes=SHARDED)
