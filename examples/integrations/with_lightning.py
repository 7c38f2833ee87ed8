"""Lightning with polycast's plugin: a run that clips inside the step, skips a step, saves, is killed and resumes."""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import lightning
import polycast
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from polycast.integrations.lightning import Precision
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")


class Module(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self, dies: bool) -> None:
        super().__init__()
        self.dies = dies
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return polycast.syncfree.AdamW(self.parameters(), lr=0.02)

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        (inputs,) = batch
        loss = nn.functional.mse_loss(self.net(inputs), inputs[:, :2])
        return loss * (float("inf") if self.current_epoch == 1 and number == 3 else 1)

    def on_train_epoch_end(self) -> None:
        scaler, optimizer = self.trainer.precision_plugin.scaler, self.trainer.optimizers[0]
        print(f"epoch {self.current_epoch}: scale {scaler.get_scale():g}, {scaler.skip_count(optimizer)} skipped")


class Dies(lightning.Callback):  # type: ignore[misc]
    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        if module.dies and trainer.current_epoch == 2:
            os.kill(os.getpid(), signal.SIGKILL)


def train(folder: Path) -> None:
    torch.manual_seed(0)
    saved = folder / "last.ckpt"
    trainer = lightning.Trainer(
        accelerator="cpu",
        plugins=Precision("16-mixed", "cpu"),
        gradient_clip_val=1.0,
        max_epochs=4,
        logger=False,
        callbacks=[ModelCheckpoint(folder, "last"), Dies()],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    batches = DataLoader(TensorDataset(torch.randn(640, 8)), batch_size=64)
    trainer.fit(Module(dies=not saved.exists()), batches, ckpt_path=saved if saved.exists() else None)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, __file__, place]
            assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
            print("killed, and started again")
            subprocess.run(command, check=True)
