"""The examples in other packages' trainers, where those are installed: `make ecosystem` has an environment of them."""

import importlib
import subprocess
import sys

import pytest
import torch

from testing.cases import ROOT

EXAMPLES = sorted(path.stem.removeprefix("with_") for path in (ROOT / "examples" / "integrations").glob("with_*.py"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_killed_and_resumes(name: str) -> None:
    pytest.importorskip(f"polycast.integrations.{name}", exc_type=ModuleNotFoundError)
    command = [sys.executable, str(ROOT / "examples" / "integrations" / f"with_{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "killed, and started again" in done.stdout


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_an_accelerator_that_needs_no_scaler_is_refused(precision: str) -> None:
    integration = pytest.importorskip("polycast.integrations.accelerate", exc_type=ModuleNotFoundError)
    accelerator = importlib.import_module("accelerate").Accelerator(cpu=True, mixed_precision=precision)
    try:
        with pytest.raises(ValueError, match=f"mixed_precision is '{precision}', which needs no gradient scaler"):
            integration.use(accelerator)
    finally:
        accelerator.free_memory()
        importlib.import_module("accelerate.state").AcceleratorState._reset_state(True)


def test_an_accelerators_handlers_configure_ours() -> None:
    """The scaler takes the options of ``GradScalerKwargs``, its regions those of ``AutocastKwargs``."""
    integration = pytest.importorskip("polycast.integrations.accelerate", exc_type=ModuleNotFoundError)
    package = importlib.import_module("accelerate")
    handlers = [package.GradScalerKwargs(init_scale=64.0, growth_interval=7), package.AutocastKwargs(enabled=False)]
    accelerator = package.Accelerator(cpu=True, mixed_precision="fp16", kwargs_handlers=handlers)
    try:
        scaler = integration.use(accelerator, growth_interval=9)
        assert (scaler.get_scale(), scaler.get_growth_interval(), scaler.get_backoff_factor()) == (64.0, 9, 0.5)
        layer = torch.nn.Linear(2, 2)
        with accelerator.autocast():
            assert layer(torch.ones(1, 2)).dtype is torch.float32
        with accelerator.autocast(package.AutocastKwargs(enabled=True)):
            assert layer(torch.ones(1, 2)).dtype is torch.float16
    finally:
        accelerator.free_memory()
        importlib.import_module("accelerate.state").AcceleratorState._reset_state(True)
