"""Gradients with the cast cache are those of stock autocast, bit for bit, in every style of training."""

import copy
from collections.abc import Callable

import pytest
import torch
from polycast import cast_cache
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.cast_cache.stock import stock

BF16, SIZE = torch.bfloat16, 4
Train = Callable[[nn.Module, Tensor], object]


class Network(nn.Module):
    """Layers around one cell, some of them used more than once, and one whose weight is also the output's."""

    def __init__(self) -> None:
        super().__init__()
        convolution = nn.Sequential(nn.Unflatten(1, (1, SIZE)), nn.Conv1d(1, 1, 3, padding=1), nn.Flatten())
        attention = nn.TransformerEncoderLayer(SIZE, 2, 8, dropout=0.0)
        tied, self.last = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)
        tied.weight = self.last.weight
        frozen = nn.Linear(SIZE, SIZE, bias=False).requires_grad_(False)
        norms = [nn.LayerNorm(SIZE), nn.BatchNorm1d(SIZE)]
        self.layers = nn.ModuleList([nn.Linear(SIZE, SIZE), convolution, attention, tied, frozen, *norms])
        self.cell = nn.GRUCell(SIZE, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        state = x
        for layer in (*self.layers, *self.layers[:5]):
            state = self.cell(x, layer(state))
        out: Tensor = self.last(state) @ self.last.weight.t()
        return out


def plain(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", BF16):
        loss = model(x).float().square().mean()
    loss.backward()


def accumulated(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", BF16):
        for part in torch.split(x, 2):
            model(part).float().square().mean().backward()


def evaluated_between(model: nn.Module, x: Tensor) -> None:
    plain(model, x)
    with torch.no_grad(), torch.autocast("cpu", BF16):
        model(x)
    plain(model, x)


def checkpointed(reentrant: bool) -> Train:
    def run(model: nn.Module, x: Tensor) -> None:
        with torch.autocast("cpu", BF16):
            out = checkpoint(model, x.requires_grad_(), use_reentrant=reentrant)
        out.float().square().mean().backward()

    return run


def doubled(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", BF16):
        loss = model(x.requires_grad_()).float().square().mean()
    (grad,) = torch.autograd.grad(loss, x, create_graph=True)
    (loss + grad.square().sum()).backward()


def twice(model: nn.Module, x: Tensor) -> None:
    with torch.autocast("cpu", BF16):
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


def gradients(style: str, kept: bool) -> list[Tensor]:
    """Return the gradients of five steps, and then the weights, while aliases of the weights are alive."""
    torch.manual_seed(0)
    network, seen = Network(), []
    aliases = [copy.copy(network.state_dict()), copy.deepcopy(network)]
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    if kept:
        cast_cache.keep(network)
    for _ in range(5):
        optimizer.zero_grad()
        STYLES[style](network, torch.randn(4, SIZE))
        seen += [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]
        optimizer.step()
    cast_cache.release(network)
    del aliases
    return seen + [parameter.detach() for parameter in network.parameters()]


# Attention takes a kernel whose gradient has no gradient.
@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:.*None of the inputs have requires_grad=True:UserWarning")
@pytest.mark.parametrize("kept", [False, True], ids=["default", "kept"])
@pytest.mark.parametrize("style", STYLES)
def test_gradients_are_those_of_stock_autocast(style: str, kept: bool) -> None:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        with stock():
            expected = gradients(style, kept=False)
        found = gradients(style, kept)
    assert len(found) == len(expected) > 0
    assert all(map(torch.equal, found, expected))
