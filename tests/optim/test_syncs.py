"""Steps do not wait for the device, whatever the learning rate is and wherever the scalars are."""

from typing import Any

import pytest
import torch
from polycast.backends import skips_by_itself

from tests.support.devices import Reads, no_syncs, synchronize
from tests.support.optimizers import OURS, SHAPES, make, parameters, set_grads


@pytest.mark.parametrize("lr", ["number", "host", "device"])
@pytest.mark.parametrize("kind", ["SGD nesterov", "Adam amsgrad"])
def test_steps_do_not_sync(kind: str, lr: str, real_device: str) -> None:
    """Not the first one either, which makes the state."""
    if not skips_by_itself(real_device):
        pytest.skip(f"on {real_device} torch.optim takes the step, after one read")
    params = parameters(*SHAPES, device=real_device)
    optimizer: Any = make(OURS, kind, params)
    if lr != "number":
        optimizer.param_groups[0]["lr"] = torch.tensor(0.1, device="cpu" if lr == "host" else real_device)
    set_grads(params, 0)
    there = [torch.tensor(number, device=real_device) for number in (1.0, 0.0)]
    with no_syncs(real_device):
        for found_inf in (*there, torch.tensor(0.0), None):
            optimizer.step(found_inf=found_inf, grad_scale=torch.tensor(2.0), clip_coef=there[0])
            synchronize(real_device)


@pytest.mark.parametrize("kind", ["SGD dampening", "Adam"])
def test_a_step_by_torch_reads_once(kind: str, real_device: str) -> None:
    """Whether it is skipped or taken, and however many groups there are; later steps make no state."""
    if kind == "Adam" and skips_by_itself(real_device):
        pytest.skip(f"on {real_device} it does not read")
    params = parameters(*SHAPES, device=real_device)
    optimizer: Any = make(OURS, kind, [{"params": [param]} for param in params])
    set_grads(params, 0)
    optimizer.step()
    for found_inf in (1.0, 0.0):
        flag = torch.tensor(found_inf, device=real_device)
        with Reads(real_device) as reads:
            optimizer.step(found_inf=flag)
        assert real_device == "cpu" or len(reads.ops) == 1
