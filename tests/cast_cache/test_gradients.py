"""Training with the cast cache: the gradients and weights equal stock autocast's bit for bit."""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from polycast import cast_cache
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.cast_cache.stock import stock
from tests.support.sharded import world

BF16, SIZE = torch.bfloat16, 4


def network() -> nn.Module:
    """Return a model that runs its layers twice. Two layers share a weight, and a third layer is frozen."""
    layers = nn.Sequential(*(nn.Linear(SIZE, SIZE) for _ in range(4)), nn.Tanh())
    layers[1].weight = layers[0].weight
    layers[2].requires_grad_(False)
    return nn.Sequential(layers, nn.LayerNorm(SIZE), layers)


def loss(model: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    with torch.autocast("cpu", BF16):
        result: Tensor = model(x).float().square().mean()
        return result


def accumulated(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", BF16):
        for part in torch.split(x, 2):
            loss(model, part).backward()  # type: ignore[no-untyped-call]


def evaluated_between(model: nn.Module, x: Tensor) -> None:
    for train in (True, False, True):
        with torch.set_grad_enabled(train):
            found = loss(model, x)
        if train:
            found.backward()  # type: ignore[no-untyped-call]


def checkpointed(model: nn.Module, x: Tensor, reentrant: bool) -> None:
    loss(lambda x: checkpoint(model, x.requires_grad_(), use_reentrant=reentrant), x).backward()  # type: ignore[no-untyped-call]


def doubled(model: nn.Module, x: Tensor) -> None:
    found = loss(model, x.requires_grad_())
    (grad,) = torch.autograd.grad(found, x, create_graph=True)
    (found + grad.square().sum()).backward()  # type: ignore[no-untyped-call]


STYLES: dict[str, Callable[[nn.Module, Tensor], None]] = {
    "accumulation inside a region": accumulated,
    "evaluation between steps": evaluated_between,
    "checkpointing": lambda model, x: checkpointed(model, x, reentrant=False),
    "reentrant checkpointing": lambda model, x: checkpointed(model, x, reentrant=True),
    "double backward": doubled,
}


def gradients(style: str, kept: bool) -> list[Tensor]:
    """Return the gradients of three steps and the final weights. During training, the weights have aliases."""
    torch.manual_seed(0)
    model, seen = network(), []
    aliases = [copy.copy(model.state_dict()), copy.deepcopy(model)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    with cast_cache.keep(model) if kept else nullcontext():
        for _ in range(3):
            optimizer.zero_grad()
            STYLES[style](model, torch.randn(4, SIZE))
            seen += [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
            optimizer.step()
    del aliases
    return seen + [parameter.detach() for parameter in model.parameters()]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:.*None of the inputs have requires_grad=True:UserWarning")
@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
@pytest.mark.parametrize("style", STYLES)
def test_gradients_equal_stock_autocast(style: str, kept: bool) -> None:
    with stock():
        expected = gradients(style, kept=False)
    found = gradients(style, kept)
    assert len(found) == len(expected) > 0
    assert all(map(torch.equal, found, expected))


def losses(model: nn.Module, region_per_step: bool, cache: bool) -> list[float]:
    torch.manual_seed(1)
    optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.5), []
    with torch.autocast("cpu", BF16, enabled=not region_per_step, cache_enabled=cache):
        for _ in range(6):
            with torch.autocast("cpu", BF16, cache_enabled=cache):
                loss = model(torch.rand(4, 8)).float().square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            seen.append(loss.item())
    return seen


@pytest.mark.usefixtures("world_of_one", "one_thread")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("region_per_step", [True, False], ids=["a region per step", "one region"])
@pytest.mark.parametrize("reshard", [True, False])
def test_sharded_training_continues_with_new_weights(region_per_step: bool, reshard: bool) -> None:
    """Training with FSDP, which rewrites its parameters without new versions, uses the new weights in each step."""
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    sharded = copy.deepcopy(plain)
    for module in (sharded[0], sharded[2], sharded):
        fsdp.fully_shard(module, mesh=world.mesh(0), reshard_after_forward=reshard)
    expected = losses(plain, region_per_step, cache=False)
    found = losses(sharded, region_per_step, cache=True)
    assert found == expected
    assert len({*found}) == 6
