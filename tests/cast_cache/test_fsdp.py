"""Fully sharded training over the cast cache: FSDP rewrites the storage of its parameters and counts no versions."""

import copy

import pytest
import torch
from torch import Tensor, nn

from tests.support.sharded import world

fsdp = pytest.importorskip("torch.distributed.fsdp")
pytestmark = pytest.mark.usefixtures("world_of_one", "one_thread")


def losses(model: nn.Module, region_per_step: bool, cache: bool) -> list[Tensor]:
    torch.manual_seed(1)
    optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.5), []
    with torch.autocast("cpu", torch.bfloat16, enabled=not region_per_step, cache_enabled=cache):
        for _ in range(6):
            with torch.autocast("cpu", torch.bfloat16, cache_enabled=cache):
                loss = model(torch.rand(4, 8)).float().square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            seen.append(loss.detach())
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("region_per_step", [True, False], ids=["a region per step", "one region"])
@pytest.mark.parametrize("reshard", [True, False])
def test_training_goes_on_with_new_weights(region_per_step: bool, reshard: bool) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    sharded = copy.deepcopy(plain)
    for module in (sharded[0], sharded[2], sharded):
        fsdp.fully_shard(module, mesh=world.mesh(0), reshard_after_forward=reshard)
    expected = losses(plain, region_per_step, cache=False)
    found = losses(sharded, region_per_step, cache=True)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert len({loss.item() for loss in found}) == 6
