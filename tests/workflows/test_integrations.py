"""The integrations with trainers of other packages, and their examples. ``make ecosystem`` installs the packages."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.cases import ROOT

EXAMPLES = sorted(path.stem.removeprefix("with_") for path in (ROOT / "examples" / "integrations").glob("with_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_killed_and_resumes(name: str) -> None:
    pytest.importorskip(f"polycast.integrations.{name}", exc_type=ModuleNotFoundError)
    command = [sys.executable, str(ROOT / "examples" / "integrations" / f"with_{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "killed, and started again" in done.stdout


@pytest.fixture
def accelerate() -> Iterator[tuple[Any, Any]]:
    """Return Accelerate and our integration, and reset the global state of ``Accelerator`` after the test."""
    integration = pytest.importorskip("polycast.integrations.accelerate", exc_type=ModuleNotFoundError)
    yield importlib.import_module("accelerate"), integration
    importlib.import_module("accelerate.state").AcceleratorState._reset_state(True)


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_an_accelerator_without_a_scaler_raises(accelerate: tuple[Any, Any], precision: str) -> None:
    package, integration = accelerate
    with pytest.raises(ValueError, match=f"expected mixed_precision=.fp16., got .{precision}.; do not call use"):
        integration.use(package.Accelerator(cpu=True, mixed_precision=precision))


def test_an_accelerator_with_a_prepared_model_or_optimizer_raises(accelerate: tuple[Any, Any]) -> None:
    """On the CPU, a model that is prepared before ``use`` would run without autocast."""
    package, integration = accelerate
    layer = torch.nn.Linear(2, 2)
    for prepared in (layer, torch.optim.SGD(layer.parameters())):
        accelerator = package.Accelerator(cpu=True, mixed_precision="fp16")
        accelerator.prepare(prepared)
        with pytest.raises(RuntimeError, match="expected no prepared model or optimizer, got one; call use"):
            integration.use(accelerator)


def test_the_handlers_of_an_accelerator_configure_polycast(accelerate: tuple[Any, Any]) -> None:
    """The scaler follows ``GradScalerKwargs``, except for the options of ``use``. Regions follow ``AutocastKwargs``."""
    package, integration = accelerate
    handlers = [package.GradScalerKwargs(init_scale=64.0, growth_interval=7), package.AutocastKwargs(enabled=False)]
    accelerator = package.Accelerator(cpu=True, mixed_precision="fp16", kwargs_handlers=handlers)
    scaler = integration.use(accelerator, growth_interval=9)
    assert (scaler.get_scale(), scaler.get_growth_interval(), scaler.get_backoff_factor()) == (64.0, 9, 0.5)
    layer = torch.nn.Linear(2, 2)
    with accelerator.autocast():
        assert layer(torch.ones(1, 2)).dtype is torch.float32
    with accelerator.autocast(package.AutocastKwargs(enabled=True)):
        assert layer(torch.ones(1, 2)).dtype is torch.float16


TRAINER = """
import sys, polycast, torch, transformers

class Model(torch.nn.Linear):
    def forward(self, inputs, labels):
        outputs = super().forward(inputs)
        assert outputs.dtype is torch.bfloat16
        return {"loss": torch.nn.functional.mse_loss(outputs.float(), labels)}

torch.manual_seed(0)
model, inputs = Model(8, 2), torch.randn(64, 8)
trainer = transformers.Trainer(
    model,
    transformers.TrainingArguments(
        sys.argv[1], use_cpu=True, bf16=True, max_steps=4, per_device_train_batch_size=16, report_to=[],
        disable_tqdm=True, save_strategy="no", logging_strategy="no", max_grad_norm=1.0,
    ),
    train_dataset=[{"inputs": row, "labels": row[:2]} for row in inputs],
    optimizer_cls_and_kwargs=(polycast.syncfree.AdamW, {"lr": 0.1, "eps": 1e-3}),
)
trainer.train()
torch.save([param.detach().cpu() for param in model.parameters()], sys.argv[1] + "/weights.pt")
print(next(model.parameters()).device.type)
"""


def test_the_trainer_that_prefers_xla_trains_there_and_on_the_cpu_on_request(tmp_path: Path) -> None:
    """``Trainer``'s own optimizer raises on XLA. ``optimizer_cls_and_kwargs`` creates ours after the model moved."""
    for name in ("accelerate", "transformers", "torch_xla"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    weights = []
    for choice, wanted in {"0": "cpu", "1": "xla"}.items():
        folder = tmp_path / wanted
        folder.mkdir()
        environment = {**os.environ, "USE_TORCH_XLA": choice, "PJRT_DEVICE": "CPU"}
        command = [sys.executable, "-c", TRAINER, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == wanted
        weights.append(torch.load(folder / "weights.pt"))
    for host, xla in zip(*weights, strict=True):
        torch.testing.assert_close(xla, host, rtol=0.02, atol=0.02)


def test_timms_scaler_stores_pytorchs_under_the_name_that_ours_uses() -> None:
    utils = pytest.importorskip("timm.utils", reason="timm is not installed")
    assert type(utils.NativeScaler("cpu")._scaler) is torch.amp.grad_scaler.GradScaler
    integration = importlib.import_module("polycast.integrations.timm")
    ours = integration.NativeScaler("cpu", init_scale=8.0)
    stock = utils.NativeScaler("cpu")
    stock.load_state_dict(ours.state_dict())
    assert stock.state_dict() == ours.state_dict()


@pytest.mark.parametrize("name", ["pytorch_lightning", "lightning.pytorch"])
def test_the_plugin_belongs_to_the_imported_lightning_package(name: str) -> None:
    if find_spec(name.partition(".")[0]) is None:
        pytest.skip(f"{name} is not installed")
    code = f"import {name} as lightning; from polycast.integrations.lightning import Precision\n"
    code += "assert issubclass(Precision, lightning.plugins.MixedPrecision)"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


@pytest.mark.filterwarnings("ignore")
def test_lightning_steps_over_batches_without_a_loss() -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    integration = importlib.import_module("polycast.integrations.lightning")
    boring = importlib.import_module("lightning.pytorch.demos.boring_classes")

    class Module(boring.BoringModel):  # type: ignore[misc, name-defined]
        def training_step(self, batch: torch.Tensor, index: int) -> Any:
            return None if index in (0, 2) else super().training_step(batch, index)

    weights, scaler = [], torch.amp.grad_scaler.GradScaler("cpu")
    options = dict.fromkeys(("logger", "enable_progress_bar", "enable_checkpointing", "limit_val_batches"), 0)
    plugins = [lightning.plugins.MixedPrecision("16-mixed", "cpu", scaler), integration.Precision("16-mixed", "cpu")]
    for plugin in plugins:
        torch.manual_seed(0)
        module = Module()
        trainer = lightning.Trainer(accelerator="cpu", plugins=plugin, max_steps=5, gradient_clip_val=0.1, **options)
        trainer.fit(module)
        weights.append(module.layer.weight.detach())
    torch.testing.assert_close(*weights)
