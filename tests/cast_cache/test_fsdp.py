"""Fully sharded training over the cast cache: FSDP rewrites the storage of its parameters and counts no versions."""

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from polycast import cast_cache
from torch import Tensor, nn

distributed = pytest.importorskip("torch.distributed")
fsdp = pytest.importorskip("torch.distributed.fsdp")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A world of one process."""
    store: Path = tmp_path_factory.mktemp("world") / "store"
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def step(model: nn.Module, x: Tensor, optimizer: torch.optim.Optimizer) -> Tensor:
    loss: Tensor = model(x).float().square().mean()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def losses(model: nn.Module, steps: int, region_per_step: bool, cache: bool) -> list[Tensor]:
    torch.manual_seed(1)
    optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.5), []
    around = torch.autocast("cpu", torch.bfloat16, enabled=not region_per_step, cache_enabled=cache)
    with around:
        for _ in range(steps):
            with torch.autocast("cpu", torch.bfloat16, cache_enabled=cache):
                loss = step(model, torch.rand(4, 8), optimizer)
            seen.append(loss)
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("world", "one_thread")
@pytest.mark.parametrize("region_per_step", [True, False], ids=["a region per step", "one region"])
@pytest.mark.parametrize("reshard", [True, False])
def test_training_goes_on_with_new_weights(region_per_step: bool, reshard: bool) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    sharded = copy.deepcopy(plain)
    mesh = distributed.device_mesh.init_device_mesh("cpu", (1,))
    for layer in sharded:
        if isinstance(layer, nn.Linear):
            fsdp.fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
    fsdp.fully_shard(sharded, mesh=mesh, reshard_after_forward=reshard)
    expected = losses(plain, 6, region_per_step, cache=False)
    found = losses(sharded, 6, region_per_step, cache=True)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert len({loss.item() for loss in found}) == 6


@pytest.mark.usefixtures("world")
def test_managed_parameters_cannot_be_kept() -> None:
    model = nn.Sequential(nn.Linear(8, 8))
    fsdp.fully_shard(model[0], mesh=distributed.device_mesh.init_device_mesh("cpu", (1,)))
    with pytest.raises(ValueError, match=r"^cannot keep the casts of a FSDPLinear: FSDP changes its storage$"):
        cast_cache.keep(model)
    with pytest.raises(ValueError, match=r"^cannot keep the casts of the tensor: it is a tensor subclass, a wrapper"):
        cast_cache.keep(model[0].weight)
