"""Accelerate: an ``Accelerator`` around the loop, alone and with FSDP2 in two processes."""

import os
from typing import Any

from accelerate import Accelerator, DistributedType, PartialState
from accelerate.utils import FullyShardedDataParallelPlugin, GradScalerKwargs
from polycast.integrations import accelerate

from tests.slow.ecosystem.cells import named, trainer
from tests.slow.ecosystem.ranks import Share, distributed, in_ranks
from tests.slow.ecosystem.recipes import SCALE, Batches, Kit, Recipe, Trained, halved
from tests.slow.ecosystem.trainers.plain import plain

PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


def prepared(kit: Kit, make: type[Accelerator]) -> list[Any]:
    recipe = kit.recipe
    accelerator = make(
        cpu=True,
        mixed_precision=PRECISIONS[recipe.precision],
        gradient_accumulation_steps=recipe.accumulate,
        step_scheduler_with_optimizer=True,
        kwargs_handlers=[GradScalerKwargs(init_scale=SCALE)],
    )
    if kit.line and recipe.scales:
        accelerate.use(accelerator)
    task = kit.task()
    optimizer = kit.optimizer(task.parameters())
    return [accelerator, *accelerator.prepare(task, optimizer, halved(optimizer))]


def run(kit: Kit, parts: list[Any], batches: Any) -> None:
    accelerator, task, optimizer, schedule = parts
    for batch in batches:
        with accelerator.accumulate(task):
            with accelerator.autocast():  # as it wraps models by itself, but those of FSDP2
                loss = task(**batch)["loss"]
            accelerator.backward(loss)
            if kit.recipe.clip and accelerator.sync_gradients:
                accelerator.clip_grad_norm_(task.parameters(), kit.recipe.clip)
            optimizer.step()
            if kit.recipe.schedule:  # Accelerate holds it where the step was skipped
                schedule.step()
            optimizer.zero_grad()


def accelerated_by(make: type[Accelerator], kit: Kit, batches: type[Batches] = Batches) -> Trained:
    recipe, parts = kit.recipe, prepared(kit, make)
    if recipe.resume:
        run(kit, parts, batches(recipe).items[: recipe.resume * recipe.accumulate])
        parts[0].save_state(kit.folder / "state")
        parts[0].wait_for_everyone()
        parts = prepared(kit, make)
        parts[0].load_state(kit.folder / "state")
    run(kit, parts, batches(recipe, first=recipe.resume))
    return kit.trained(parts[0].unwrap_model(parts[1]), parts[2])


def is_float16(recipe: Recipe) -> bool:
    return recipe.scales


# Accelerate runs float16 on the CPU in float32, so torch's own loop stands beside it.
@trainer("accelerate", beside=plain, beside_for=is_float16, line="`accelerate.use(accelerator)`")
def accelerated(kit: Kit) -> Trained:
    return accelerated_by(Accelerator, kit)


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
    rank, size = str(distributed.get_rank()), str(distributed.get_world_size())
    os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=size, LOCAL_WORLD_SIZE=size, OMP_NUM_THREADS="1")
    trained = accelerated_by(ShardingAccelerator, kit, Share)
    shards: list[Any] = trained.weights
    return trained._replace(weights=[shard.full_tensor() for shard in shards])


SHARDED = [named(name) for name in ("bfloat16", "float16, clipped", "float16, a skip", "float16, resumed")]


@trainer("accelerate, FSDP2 on 2 ranks", beside=plain, line="`accelerate.use(accelerator)`", recipes=SHARDED)
def sharded_accelerate(kit: Kit) -> Trained:
    return in_ranks(sharded_on_a_rank, kit, 2)
