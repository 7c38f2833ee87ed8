"""Gradients with the cast cache are those of stock autocast, bit for bit, over 20 steps of training."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy

import polycast
import pytest
import torch
from polycast import cast_cache
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

STEPS = 20
pytestmark = pytest.mark.usefixtures("one_thread")


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2)]
        norms = [nn.BatchNorm2d(channels) for _ in range(2)]
        self.body = nn.Sequential(convolutions[0], norms[0], nn.ReLU(), convolutions[1], norms[1])

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = torch.relu(x + self.body(x))
        return out


class Tied(nn.Module):
    """A transformer that uses one layer twice, and whose first layer and last share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.table = nn.Parameter(torch.randn(16, 16))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(self.layer(x @ self.table)) @ self.table.t()
        return out


def resnet() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(nn.Conv2d(3, 8, 3), Block(8), Block(8), nn.Flatten(), nn.LazyLinear(4)), torch.randn(
        4, 3, 8, 8
    )


def transformer() -> tuple[nn.Module, Tensor]:
    return Tied(), torch.randn(4, 6, 16)


def plain(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(x).float().square().mean()
    loss.backward()


def accumulated(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        for part in torch.split(x, 2):
            model(part).float().square().mean().backward()


def evaluated_between(model: nn.Module, x: Tensor) -> None:
    plain(model, x)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for _ in range(4):
            model(x)
    plain(model, x)


def checkpointed(reentrant: bool) -> Callable[[nn.Module, Tensor], None]:
    def run(model: nn.Module, x: Tensor) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            out = checkpoint(model, x.requires_grad_(), use_reentrant=reentrant)
        out.float().square().mean().backward()

    return run


def doubled(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(x.requires_grad_()).float().square().mean()
    (grad,) = torch.autograd.grad(loss, x, create_graph=True)
    (loss + grad.square().sum()).backward()


def twice(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(x).float().square().mean()
    loss.backward(retain_graph=True)
    loss.backward()


STYLES = {
    "plain": plain,
    "accumulation inside a region": accumulated,
    "evaluation between": evaluated_between,
    "checkpointing": checkpointed(False),
    "reentrant checkpointing": checkpointed(True),
    "double backward": doubled,
    "two backward passes": twice,
}


@contextmanager
def stock() -> Iterator[None]:
    polycast.uninstall("cpu")
    try:
        yield
    finally:
        polycast.install("cpu")


def train(model: nn.Module, x: Tensor, style: Callable[[nn.Module, Tensor], None]) -> list[Tensor]:
    """Return the gradients of every step, and at last the weights."""
    model, seen = deepcopy(model), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        style(model, x.clone())
        seen += [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        optimizer.step()
    return seen + [parameter.detach() for parameter in model.parameters()]


# Attention takes a kernel whose gradient has no gradient.
@pytest.mark.filterwarnings("ignore:.*None of the inputs have requires_grad=True:UserWarning")
@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("make", [resnet, transformer])
def test_gradients_are_those_of_stock_autocast(
    make: Callable[[], tuple[nn.Module, Tensor]], style: str, kept: bool
) -> None:
    torch.manual_seed(0)
    model, x = make()
    model(x)
    with stock(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = train(model, x, STYLES[style])
    if kept:
        cast_cache.keep(model)  # casts with history are shared inside regions all the same
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        found = train(model, x, STYLES[style])
    cast_cache.release(model)
    assert len(found) == len(expected) > STEPS
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_low_rank_adapters_train_over_kept_weights() -> None:
    base, down, up = nn.Linear(16, 16).requires_grad_(False), nn.Linear(16, 2, bias=False), nn.Linear(2, 16, bias=False)
    x = torch.randn(4, 16)

    def gradients() -> list[Tensor]:
        for parameter in (down.weight, up.weight):
            parameter.grad = None
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16):
                (base(x) + up(down(x))).float().square().mean().backward()
        return [parameter.grad for parameter in (down.weight, up.weight) if parameter.grad is not None]

    with stock():
        expected = gradients()
    cast_cache.keep(base)
    before = cast_cache.info()["cpu"].hits
    found = gradients()
    assert cast_cache.info()["cpu"].hits > before
    cast_cache.release(base)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
