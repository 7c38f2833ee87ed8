"""Steps do not wait for the device, whatever the learning rate is and wherever the scalars are."""

from typing import Any

import pytest
import torch
from polycast.backends import skips_by_itself

from tests.support.devices import no_syncs, synchronize
from tests.support.optimizers import OURS, SHAPES, make, parameters, set_grads


@pytest.mark.parametrize("lr", ["number", "host", "device"])
@pytest.mark.parametrize("kind", ["SGD nesterov", "Adam amsgrad"])
def test_steps_do_not_sync(kind: str, lr: str, real_device: str) -> None:
    """Not the first one either, which makes the state."""
    if not skips_by_itself(real_device):
        pytest.skip(f"on {real_device} torch.optim takes the step, after one read")
    params = parameters(*SHAPES, device=real_device)
    optimizer: Any = make(OURS, kind, params)
    group = optimizer.param_groups[0]
    if lr != "number":
        group["lr"] = torch.tensor(0.1, device="cpu" if lr == "host" else real_device)
    set_grads(params, 0)
    there = [torch.tensor(number, device=real_device) for number in (1.0, 0.0)]
    with no_syncs(real_device):
        for found_inf in (*there, torch.tensor(0.0), None):
            optimizer.step(found_inf=found_inf, grad_scale=torch.tensor(2.0), clip_coef=there[0])
            synchronize(real_device)


@pytest.mark.parametrize("kind", ["SGD dampening", "Adam"])
def test_a_step_by_torch_reads_once(kind: str, real_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is skipped or taken, and however many groups there are; later steps make no state."""
    if kind == "Adam" and skips_by_itself(real_device):
        pytest.skip(f"on {real_device} it does not read")
    params = parameters(*SHAPES, device=real_device)
    optimizer: Any = make(OURS, kind, [{"params": [param]} for param in params])
    set_grads(params, 0)
    optimizer.step()
    item, read = torch.Tensor.item, []

    def noted(tensor: torch.Tensor) -> Any:
        read.append(tensor.device.type)
        return item(tensor)

    monkeypatch.setattr(torch.Tensor, "item", noted)
    for found_inf in (1.0, 0.0):
        optimizer.step(found_inf=torch.tensor(found_inf, device=real_device))
    assert real_device == "cpu" or read.count(real_device) == 2
