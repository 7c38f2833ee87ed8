"""Lightning: the ``Trainer``, without and with polycast's plugin."""

import logging
import warnings
from collections.abc import Iterator
from typing import Any, cast

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.precision import MixedPrecision, Precision
from polycast.integrations.lightning import Precision as OurPrecision

from tests.slow.ecosystem.cells import trainer
from tests.slow.ecosystem.recipes import SCALE, STEPS, Kit, Trained, batches
from tests.slow.ecosystem.trainers.plain import plain

PRECISIONS: dict[str, Any] = {"bfloat16": "bf16-mixed", "float16": "16-mixed"}


class Module(lightning.LightningModule):  # type: ignore[misc]
    """The task as a ``LightningModule``."""

    def __init__(self, kit: Kit) -> None:
        super().__init__()
        self.kit, self.task = kit, kit.task()

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        return cast("torch.Tensor", self.task(**batch)["loss"])

    def configure_optimizers(self) -> Any:
        optimizer = self.kit.optimizer(self.parameters())
        schedule = self.kit.schedule(
            optimizer, self.trainer.precision_plugin.scaler if self.kit.recipe.scales else None
        )
        if schedule is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Loader:
    """A loader of batches with the position in the epoch, which Lightning saves and restores."""

    def __init__(self, batches: list[dict[str, torch.Tensor]]) -> None:
        self.batches, self.position = batches, 0

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        while self.position < len(self.batches):
            self.position += 1
            yield self.batches[self.position - 1]

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


def fit(kit: Kit, module: Module, steps: int, resume: Any = None) -> lightning.Trainer:
    """Train up to a total of ``steps`` steps, from the start or a checkpoint, and return the Trainer."""
    recipe, plugin = kit.recipe, Precision()
    if recipe.precision != "float32":
        kind = PRECISIONS[recipe.precision]
        if kit.line:
            plugin = OurPrecision(kind, "cpu", **({"init_scale": SCALE} if recipe.scales else {}))
        else:
            plugin = MixedPrecision(kind, "cpu", kit.scaler() if recipe.scales else None)
    runner = lightning.Trainer(
        accelerator="cpu",
        plugins=plugin,
        max_steps=steps,
        max_epochs=1,
        accumulate_grad_batches=recipe.accumulate,
        gradient_clip_val=recipe.clip or None,
        logger=False,
        callbacks=ModelCheckpoint(kit.folder, "last", every_n_train_steps=steps),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    runner.fit(module, Loader(batches(recipe)), ckpt_path=resume)
    return runner


def lightning_trainer(kit: Kit) -> Trained:
    warnings.simplefilter("ignore")
    logging.disable()
    module, path = Module(kit), None
    if kit.recipe.resume:
        path = kit.folder / "last.ckpt"
        fit(kit, module, kit.recipe.resume)
        module = Module(kit)
    runner = fit(kit, module, STEPS, path)
    return kit.trained(module.task, runner.optimizers[0])


# Lightning also advances its schedules at skipped steps, so the stock run is PyTorch's loop.
LINE = "`plugins=Precision(...)`"
trainer("lightning.Trainer", lightning_trainer, plain, line=LINE)
trainer("lightning.Trainer, our plugin", lightning_trainer, plain, line=LINE, needs_line=True)
