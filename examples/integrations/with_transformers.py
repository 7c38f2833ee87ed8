"""The ``Trainer`` of transformers with polycast's scaler: a run that clips, skips steps, saves, is killed and resumes.

If ``torch_xla`` is installed, set ``USE_TORCH_XLA=0``: otherwise the ``Trainer`` uses XLA even with ``use_cpu=True``.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import polycast
import torch
import transformers
from polycast.integrations.transformers import ScalerMixin
from torch import Tensor, nn


class Trainer(ScalerMixin, transformers.Trainer):  # type: ignore[misc]
    pass


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": nn.functional.mse_loss(self.net(inputs), labels)}


class Dies(transformers.TrainerCallback):  # type: ignore[misc]
    def on_save(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def train(folder: Path) -> None:
    torch.manual_seed(0)
    model, inputs = Model(), torch.randn(640, 8)
    inputs[100] = float("inf")  # One step of each epoch is skipped.
    arguments = transformers.TrainingArguments(
        folder, use_cpu=True, fp16=True, max_grad_norm=1.0, num_train_epochs=4, per_device_train_batch_size=64,
        save_steps=20, logging_strategy="epoch", disable_tqdm=True, report_to=[],
    )  # fmt: skip
    trainer = Trainer(
        model,
        arguments,
        train_dataset=[{"inputs": row, "labels": row[:2]} for row in inputs],
        optimizers=(polycast.syncfree.AdamW(model.parameters(), lr=0.02), None),
    )
    resumes = (folder / "checkpoint-20").exists()
    if not resumes:
        trainer.add_callback(Dies())
    trainer.train(resume_from_checkpoint=resumes)
    print(f"{trainer.scaler.skip_count(trainer.optimizer.optimizer)} skipped, scale {trainer.scaler.get_scale():g}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, __file__, place]
            assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
            print("killed, and started again")
            subprocess.run(command, check=True)
