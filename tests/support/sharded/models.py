"""Sharded parameters, gradients and models."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from tests.support.optimizers import parameters
from tests.support.sharded.world import distributed, mesh, rank

#: Each row has placements, and the shape of the mesh, in which 0 means the number of ranks.
PLACES: tuple[tuple[Any, ...], ...] = (("0",), ("1",), ("R",), ("R0", 1, 0), ("01", 0, 1), ("1R", 0, 1))


def placed(tensor: Tensor, text: str, *shape: int) -> Any:
    """Return a DTensor of a tensor that all ranks have. "0R" splits the rows over the first mesh dimension."""
    package = distributed.tensor
    placements = [package.Replicate() if letter == "R" else package.Shard(int(letter)) for letter in text]
    return package.distribute_tensor(tensor, mesh(*shape or (0,)), placements)


def partial(share: Tensor) -> Any:
    """Return a DTensor whose value is the sum of the ranks' tensors."""
    return distributed.tensor.DTensor.from_local(share, mesh(0), [distributed.tensor.Partial()])


def whole(tensor: Any) -> Tensor:
    """Return the full value of a DTensor, or a tensor unchanged."""
    result: Tensor = (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach()
    return result


def assert_same(found: Iterable[Any], wanted: Iterable[Any], tolerance: float = 1e-6) -> None:
    for left, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(whole(left), whole(right), rtol=tolerance, atol=tolerance)


def leaves() -> list[Any]:
    """Return a parameter of each placement, and a plain tensor."""
    *tensors, plain = parameters(*[(4, 3)] * (len(PLACES) + 1))
    return [*(placed(one.detach(), *place).requires_grad_() for one, place in zip(tensors, PLACES, strict=True)), plain]


def give(params: list[Any], seed: int) -> None:
    """Set gradients on the leaves."""
    grads = parameters(*[(4, 3)] * len(params), seed=seed)
    for param, grad, place in zip(params, grads, (*PLACES, None), strict=False):
        param.grad = placed(grad.detach(), *place) if place else grad.detach()


def model(seed: int = 0) -> nn.Module:
    """Return a fully sharded model. Its last bias has one element, which only one rank has."""
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.Linear(8, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 1))
    for layer in (layers[0], layers[3], layers):
        distributed.fsdp.fully_shard(layer, mesh=mesh(0))
    return layers


def loss(layers: nn.Module, number: int) -> Tensor:
    """Return the loss of a batch, which differs between the ranks."""
    generator = torch.Generator().manual_seed(100 * number + rank())
    result: Tensor = layers(torch.randn(4, 8, generator=generator)).square().mean()
    return result


def backward(layers: nn.Module, number: int = 0) -> Any:
    """Run backward for a batch, and return the parameters."""
    loss(layers, number).backward()  # type: ignore[no-untyped-call]
    return layers.parameters()


def train(layers: nn.Module, optimizer: Any, batches: Iterable[int]) -> None:
    for number in batches:
        backward(layers, number)
        optimizer.step()
        optimizer.zero_grad()
