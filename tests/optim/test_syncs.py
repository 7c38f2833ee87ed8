"""Steps do not wait for the device, whatever the learning rate is and wherever the scalars are."""

from typing import Any

import pytest
import torch

from tests.support.devices import no_syncs, synchronize
from tests.support.optimizers import OURS, SHAPES, make, parameters, set_grads


@pytest.mark.parametrize("lr", ["number", "host", "device"])
@pytest.mark.parametrize("kind", ["SGD dampening", "SGD nesterov", "Adam amsgrad", "AdamW"])
def test_steps_do_not_sync(kind: str, lr: str, real_device: str) -> None:
    """Not the first one either, which makes the state, nor one that finds out whether momentum has started."""
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
            if group.get("momentum") and not group["nesterov"]:
                group["dampening"] = 0.5 - group["dampening"]
            synchronize(real_device)
