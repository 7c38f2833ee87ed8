"""The training loops and snippets of the documents: what their tests share, and which test and example holds each.

python -m tests.workflows.table  # prints the table: document | section | test | example
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler as Scaler

from testing.probe import HAS_XLA, NO_XLA

NEEDS_XLA = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("xla", marks=NEEDS_XLA)])
READS = pytest.mark.filterwarnings("ignore:each step of .* waits until the device:UserWarning")
LOWER = {"cpu": torch.float16, "xla": torch.bfloat16}
TOLERANCE = {"cpu": 0.01, "xla": 0.05}
Batch = tuple[Tensor, Tensor]
loss_fn = nn.MSELoss()


def sync(device: str) -> None:
    if device == "xla":
        import torch_xla

        torch_xla.sync()


def data(device: str, steps: int = 8, same: bool = False) -> Iterator[Batch]:
    """Yield batches of a linear problem on the device, and have XLA run each step, as its loaders do."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(8, 2, generator=generator)
    inputs = torch.randn(steps, 16, 8, generator=generator)
    for number in range(steps):
        batch = inputs[0 if same else number]
        yield batch.to(device), (batch @ weight).to(device)
        sync(device)


def network(device: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)


class Amp(NamedTuple):
    """What a loop takes from a package: ours on a device, or torch in float32 on the host to compare with."""

    device: str
    optim: Any
    autocast: Callable[[], AbstractContextManager[Any]]
    GradScaler: Callable[..., Any]


def ours(device: str, optim: Any = syncfree, lower: torch.dtype | None = None) -> Amp:
    def scaler(init_scale: float = 256.0) -> polycast.GradScaler:
        return polycast.GradScaler(init_scale=init_scale)

    return Amp(device, optim, lambda: polycast.autocast(device, lower or LOWER[device]), scaler)


def float32() -> Amp:
    def scaler(_: float = 1.0) -> Scaler:
        return Scaler("cpu", enabled=False)

    return Amp("cpu", torch.optim, lambda: torch.autocast("cpu", enabled=False), scaler)


def floats(values: list[Tensor]) -> list[float]:
    return [float(value) for value in torch.stack(values).cpu()]


def compare(found: list[Tensor], wanted: list[Tensor], device: str, fall: float = 0.5) -> None:
    """The losses fall as they do in float32, to a share of the first at least."""
    losses, reference = floats(found), floats(wanted)
    assert losses == pytest.approx(reference, rel=TOLERANCE[device], abs=TOLERANCE[device] * reference[0] / 4)
    assert losses[-1] < fall * losses[0]


class Run(NamedTuple):
    """What a training leaves: losses, the types of the outputs, and what it trained with."""

    losses: list[Tensor]
    dtypes: list[torch.dtype]
    scaler: Any
    optimizer: Any


def scaled_step(scaler: Any, optimizer: Any, loss: Any) -> None:
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def train(
    amp: Amp,
    model: Any = None,
    params: list[Tensor] | None = None,
    step: Callable[[Any, Any, Any], None] = scaled_step,
    init_scale: float = 256.0,
    same: bool = False,
    steps: int = 8,
    **options: float,
) -> Run:
    """Train as the documents' typical loop does; step is what comes after the forward pass."""
    model = model or network(amp.device)
    optimizer = amp.optim.SGD(params or model.parameters(), **{"lr": 0.1} | options)
    scaler = amp.GradScaler(init_scale)
    losses, dtypes = [], []
    for inputs, targets in data(amp.device, steps, same):
        optimizer.zero_grad()
        with amp.autocast():
            output = model(inputs)
            loss = loss_fn(output, targets)
        step(scaler, optimizer, loss)
        losses.append(loss.detach())
        dtypes.append(output.dtype)
    return Run(losses, dtypes, scaler, optimizer)


@dataclass(frozen=True)
class Workflow:
    """A section of a document, the test that runs what it shows, and the example that shows it of this package."""

    document: str
    section: str
    test: str
    example: str = ""


XLA, EXAMPLES = "000_1ddc69e16249b2f9.txt", "002_c3618d3a88958c87.txt"
XPU, XLA_REPOSITORY = "003_79838daea11dc429.txt", "004_285a24f7706adc78.txt"
TRAINING, MODULES, FUNCTIONS, BACKENDS = (
    f"tests/workflows/test_{name}.py::test_" for name in ("training", "modules", "functions", "backends")
)

WORKFLOWS = [
    Workflow(EXAMPLES, "Typical Mixed Precision Training", TRAINING + "typical_training", "examples/digits.py"),
    Workflow(EXAMPLES, "Working with Unscaled Gradients", TRAINING + "unscaled_gradients", "examples/accumulate.py"),
    Workflow(EXAMPLES, "Gradient clipping", TRAINING + "clipping", "examples/accumulate.py"),
    Workflow(EXAMPLES, "Working with Scaled Gradients", TRAINING + "accumulation", "examples/accumulate.py"),
    Workflow(EXAMPLES, "Gradient accumulation", TRAINING + "accumulation", "examples/accumulate.py"),
    Workflow(EXAMPLES, "Gradient penalty", TRAINING + "penalty", "examples/penalty.py"),
    Workflow(EXAMPLES, "Gradient penalty, without a read", TRAINING + "penalty", "examples/penalty.py"),
    Workflow(
        EXAMPLES,
        "Working with Multiple Models, Losses, and Optimizers",
        TRAINING + "several_models_losses_and_optimizers",
        "examples/several.py",
    ),
    Workflow(EXAMPLES, "DataParallel in a single process", MODULES + "threads_as_of_data_parallel"),
    Workflow(
        EXAMPLES,
        "DistributedDataParallel, one GPU per process",
        MODULES + "distributed_data_parallel_skips_on_all_ranks",
    ),
    Workflow(EXAMPLES, "DistributedDataParallel, multiple GPUs per process", MODULES + "threads_as_of_data_parallel"),
    Workflow(EXAMPLES, "Autocast and Custom Autograd Functions", FUNCTIONS + "an_imported_function"),
    Workflow(
        EXAMPLES,
        "Functions with multiple inputs or autocastable ops",
        FUNCTIONS + "functions_with_multiple_inputs",
        "examples/custom_function.py",
    ),
    Workflow(
        EXAMPLES,
        "Functions that need a particular dtype",
        FUNCTIONS + "functions_that_need_a_particular_dtype",
        "examples/custom_function.py",
    ),
    *(
        Workflow(document, section, BACKENDS + test, example)
        for document in (XLA, XLA_REPOSITORY)
        for section, test, example in (
            ("AMP for XLA:TPU", "xla_optimizer_step", "examples/digits.py"),
            ("AMP for XLA:GPU", "xla_all_reduce_before_the_step", "examples/digits.py"),
        )
    ),
    Workflow(XPU, "Default Precision", BACKENDS + "inference", "examples/inference.py"),
    Workflow(XPU, "Inference with Imperative Path", BACKENDS + "inference", "examples/inference.py"),
    Workflow(XPU, "Inference with TorchScript Path", BACKENDS + "inference_traced", "examples/inference.py"),
    Workflow(XPU, "Training Support", BACKENDS + "xpu_training"),
]
