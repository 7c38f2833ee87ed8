"""Training on two XLA devices of one host by SPMD: one program, whose tensors are split over a mesh of the devices."""

import json
from typing import Any

import polycast
import pytest
import torch
from polycast import syncfree
from torch import Tensor, nn

from tests.support.probe import HAS_XLA, NO_XLA
from tests.support.process import python
from tests.support.xla import Traffic, sync

pytestmark = pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)

STEPS, BAD = 8, 3
SCALE = 2.0**10
# First of all: the tests' own modules make tensors on XLA.
CHILD = """
from torch_xla import runtime
runtime.use_spmd()
from tests.backends.test_xla_spmd import train_on_two
train_on_two()
"""


def batch(number: int) -> tuple[Tensor, Tensor]:
    """Return the inputs of a step, and what multiplies their losses: once, on the second device, by infinity."""
    inputs, factors = torch.randn(8, 8, generator=torch.Generator().manual_seed(number)), torch.ones(8, 1)
    factors[-1] = float("inf") if number == BAD else 1.0
    return inputs, factors


class Training:
    """A model, its optimizer and its scaler."""

    def __init__(self, device: str, optimizer: Any, scaler: Any) -> None:
        torch.manual_seed(0)
        self.device = device
        self.model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
        self.optimizer = optimizer(self.model.parameters(), lr=0.02, eps=1e-3)
        self.scaler = scaler(device, init_scale=SCALE, growth_interval=3)

    def step(self, inputs: Tensor, factors: Tensor) -> None:
        with torch.autocast(self.device, dtype=torch.bfloat16):
            outputs = self.model(inputs)
        self.scaler.scale((outputs.float().square() * factors).mean()).backward()
        if isinstance(self.scaler, polycast.GradScaler):
            self.scaler.clip_grad_norm(self.optimizer, max_norm=0.1)
        else:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=0.1)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def result(self) -> dict[str, Any]:
        weights = [param.detach().cpu().tolist() for param in self.model.parameters()]
        return {"weights": weights, "scale": self.scaler.get_scale()}


def train_on_two() -> None:
    """Print what is trained where the batches are split, and the parameters."""
    import torch_xla
    from torch_xla.distributed import spmd

    mesh = spmd.Mesh(range(2), (2,), ("data",))
    training = Training("xla", syncfree.AdamW, polycast.GradScaler)
    params = list(training.model.parameters())
    for param in params:
        spmd.mark_sharding(param, mesh, ("data", *[None] * (param.dim() - 1)))
    traffic = Traffic()
    for number in range(STEPS):
        inputs, factors = (tensor.to("xla") for tensor in batch(number))
        for tensor in (inputs, factors):
            spmd.mark_sharding(tensor, mesh, ("data", None))
        training.step(inputs, factors)
        sync()
    counts = traffic.reads(), traffic.compiles(), int(training.scaler.skip_count(training.optimizer))
    moments = [training.optimizer.state[param]["exp_avg"] for param in params]
    split = ["devices" in torch_xla._XLAC._get_xla_sharding_spec(tensor) for tensor in (*params, *moments)]
    print(json.dumps({**training.result(), "reads, compiles, skips": counts, "split": split}))


def test_two_devices_train_as_one_does() -> None:
    """Nothing syncs, all skip where one device's half overflows, and the state is split as the parameters are."""
    reference = Training("cpu", torch.optim.AdamW, torch.amp.grad_scaler.GradScaler)
    for number in range(STEPS):
        reference.step(*batch(number))
    wanted, found = reference.result(), json.loads(python(CHILD, CPU_NUM_DEVICES="2", TF_CPP_MIN_LOG_LEVEL="2"))
    assert found["reads, compiles, skips"] == [0, 2, 1]
    assert found["split"] == [True] * 8
    assert found["scale"] == wanted["scale"]
    for left, right in zip(found["weights"], wanted["weights"], strict=True):
        torch.testing.assert_close(torch.tensor(left), torch.tensor(right), rtol=0, atol=5e-3)
