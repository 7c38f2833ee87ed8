"""Accelerate: an ``Accelerator`` around the loop."""

from typing import Any

from accelerate import Accelerator
from polycast.integrations import accelerate

from tools.ecosystem.cells import trainer
from tools.ecosystem.recipes import SCALE, Batches, Kit, Recipe, Trained, halved
from tools.ecosystem.trainers.plain import plain

PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


def prepared(kit: Kit, **options: Any) -> list[Any]:
    recipe = kit.recipe
    accelerator = Accelerator(
        mixed_precision=PRECISIONS[recipe.precision],
        gradient_accumulation_steps=recipe.accumulate,
        step_scheduler_with_optimizer=True,
        **options,
    )
    if kit.line and recipe.scales:
        accelerate.use(accelerator, init_scale=SCALE)
    task = kit.task()
    optimizer = kit.optimizer(task.parameters())
    return [accelerator, *accelerator.prepare(task, optimizer, halved(optimizer))]


def run(kit: Kit, parts: list[Any], batches: Any) -> None:
    accelerator, task, optimizer, schedule = parts
    for batch in batches:
        with accelerator.accumulate(task):
            accelerator.backward(task(**batch)["loss"])
            if kit.recipe.clip and accelerator.sync_gradients:
                accelerator.clip_grad_norm_(task.parameters(), kit.recipe.clip)
            optimizer.step()
            if kit.recipe.schedule:  # Accelerate holds it where the step was skipped
                schedule.step()
            optimizer.zero_grad()


def is_float16(recipe: Recipe) -> bool:
    return recipe.scales


# Accelerate runs float16 on the CPU in float32, so torch's own loop stands beside it.
@trainer("accelerate", beside=plain, beside_for=is_float16, line="`accelerate.use(accelerator)`")
def accelerated(kit: Kit) -> Trained:
    recipe = kit.recipe
    parts = prepared(kit, cpu=True)
    if recipe.resume:
        run(kit, parts, Batches(recipe).items[: recipe.resume * recipe.accumulate])
        parts[0].save_state(kit.folder / "state")
        parts = prepared(kit, cpu=True)
        parts[0].load_state(kit.folder / "state")
    run(kit, parts, Batches(recipe, first=recipe.resume))
    return kit.trained(parts[0].unwrap_model(parts[1]), parts[2])
