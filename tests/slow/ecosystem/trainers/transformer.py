"""The ``Trainer`` of transformers."""

import logging
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from polycast.integrations.transformers import ScalerMixin
from torch import Tensor

from tests.slow.ecosystem.cells import trainer
from tests.slow.ecosystem.recipes import RECIPES, SCALE, STEPS, Kit, Trained, batches
from tests.slow.ecosystem.trainers.plain import plain


class Sequential(transformers.Trainer):  # type: ignore[misc]
    """A ``Trainer`` with the batches in order, and with the loss of the model."""

    model_accepts_loss_kwargs = False

    def _get_train_sampler(self, _dataset: Any = None) -> torch.utils.data.Sampler[int]:
        return torch.utils.data.SequentialSampler(self.train_dataset)


class Ours(ScalerMixin, Sequential):
    scaler_options = {"init_scale": SCALE}  # noqa: RUF012


def collate(items: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    (batch,) = items
    return batch


def make(kit: Kit) -> transformers.Trainer:
    recipe, task = kit.recipe, kit.task()
    arguments = transformers.TrainingArguments(
        output_dir=kit.folder,
        use_cpu=True,
        fp16=recipe.precision == "float16",
        bf16=recipe.precision == "bfloat16",
        max_grad_norm=recipe.clip,
        gradient_accumulation_steps=recipe.accumulate,
        per_device_train_batch_size=1,
        max_steps=STEPS,
        save_strategy="steps" if recipe.resume else "no",
        save_steps=recipe.resume or STEPS,
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        remove_unused_columns=False,
    )
    optimizer = kit.optimizer(task.parameters())
    schedule = kit.schedule(optimizer) or torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    return (Ours if kit.line else Sequential)(
        model=task,
        args=arguments,
        train_dataset=batches(recipe),
        data_collator=collate,
        optimizers=(optimizer, schedule),
    )


class Killed(transformers.TrainerCallback):  # type: ignore[misc]
    """A callback that ends the training run at the step after which the recipe resumes."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = state.global_step >= self.step


def transformers_trainer(kit: Kit) -> Trained:
    warnings.simplefilter("ignore")
    logging.disable()
    runner, resume = make(kit), kit.recipe.resume
    if resume:
        runner.add_callback(Killed(resume))
        runner.train()
        runner = make(kit)
    runner.train(resume_from_checkpoint=str(Path(kit.folder) / f"checkpoint-{resume}") if resume else None)
    return kit.trained(runner.model, runner.optimizer)


# The `Trainer` runs float16 on the CPU in float32, so the stock run of float16 is PyTorch's loop.
for each in RECIPES:
    stock = plain if each.scales else transformers_trainer
    line = "`class Mine(ScalerMixin, Trainer)`"
    trainer("transformers.Trainer", transformers_trainer, stock, line=line, recipes=[each])
