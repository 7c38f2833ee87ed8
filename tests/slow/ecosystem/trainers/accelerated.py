"""The trainer of Accelerate: an ``Accelerator`` around the training loop."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import GradScalerKwargs
from polycast.integrations import accelerate

from tests.slow.ecosystem.cells import trainer
from tests.slow.ecosystem.recipes import RECIPES, SCALE, Kit, Trained
from tests.slow.ecosystem.trainers.plain import loop, plain

PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


class Accelerated:
    """The training loop of Accelerate's documentation."""

    def __init__(self, kit: Kit) -> None:
        self.kit, recipe = kit, kit.recipe
        self.accelerator = Accelerator(
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
                loss = self.task(**batch)["loss"]
                self.accelerator.backward(loss)
                if clip and self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.task.parameters(), clip)
                self.optimizer.step()
                if self.kit.recipe.schedule:  # After a skipped step, Accelerate skips this call.
                    self.schedule.step()
                self.optimizer.zero_grad()

    def save(self, path: Path) -> None:
        self.accelerator.save_state(path)

    def load(self, path: Path) -> None:
        self.accelerator.load_state(path)

    def trained(self) -> Trained:
        return self.kit.trained(self.accelerator.unwrap_model(self.task), self.optimizer)


LINE = "`accelerate.use(accelerator)`"
accelerated = partial(loop, make=Accelerated)
# Accelerate runs float16 on the CPU in float32, so the stock run of float16 is PyTorch's loop.
for each in RECIPES:
    trainer("accelerate", accelerated, plain if each.scales else accelerated, line=LINE, recipes=[each])
