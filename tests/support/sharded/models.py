"""Models, parameters and training that the checks share."""

from collections.abc import Callable, Iterable
from typing import Any

import polycast
import torch
from polycast import syncfree
from torch import Tensor, nn

from tests.support.optimizers import parameters
from tests.support.sharded.world import distributed, mesh, rank, size

#: Placements, and the shape of the mesh: a 0 is as long as the world. The last parameter is a plain tensor.
PLACES: tuple[tuple[Any, ...], ...] = (("0",), ("1",), ("R",), ("R0", 1, 0), ("01", 0, 1), ("1R", 0, 1))
INF = float("inf")
SCALE = 1024.0
#: Optimizers of either library.
MAKERS: dict[str, Callable[[Any], Any]] = {
    "sync-free": lambda params: syncfree.AdamW(params, lr=0.05),
    "fused": lambda params: torch.optim.AdamW(params, lr=0.05, fused=True),
    "foreach": lambda params: torch.optim.AdamW(params, lr=0.05, foreach=True),
}


def started(scale: float = SCALE, **options: Any) -> Any:
    """Return a scaler that has scaled a loss."""
    scaler = polycast.GradScaler("cpu", init_scale=scale, **options)
    scaler.scale(torch.ones(1))
    return scaler


def placed(tensor: Tensor, text: str, *shape: int) -> Tensor:
    """Return a DTensor of a tensor that all ranks have; "0R" is split by rows along the first dimension of the mesh."""
    package = distributed.tensor
    placements = [package.Replicate() if letter == "R" else package.Shard(int(letter)) for letter in text]
    result: Tensor = package.distribute_tensor(tensor, mesh(*shape or (0,)), placements)
    return result


def partial(tensor: Tensor) -> Tensor:
    """Return a DTensor whose sum over the ranks is the tensor."""
    share = tensor * (2.0 if rank() == 0 else -1.0) if size() > 1 else tensor
    result: Tensor = distributed.tensor.DTensor.from_local(share, mesh(0), [distributed.tensor.Partial()])
    return result


def whole(tensor: Tensor) -> Tensor:
    """Return the whole of a DTensor, or a tensor as it is."""
    full = getattr(tensor, "full_tensor", None)
    result: Tensor = tensor.detach() if full is None else full().detach()
    return result


def model(seed: int = 0) -> nn.Module:
    """Return a fully sharded model. Its last bias has one element, so that in a larger world a rank has none of it."""
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.Linear(8, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 1))
    for layer in (layers[0], layers[3], layers):
        distributed.fsdp.fully_shard(layer, mesh=mesh(0))
    return layers


def loss(layers: nn.Module, number: int, factor: float = 1.0) -> Tensor:
    """Return the loss of a batch that is another one on each rank."""
    generator = torch.Generator().manual_seed(100 * number + rank())
    result: Tensor = layers(torch.randn(4, 8, generator=generator)).square().mean() * factor
    return result


def assert_same(found: Iterable[Tensor], wanted: Iterable[Tensor], tolerance: float = 1e-6) -> None:
    for left, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(whole(left), whole(right), rtol=tolerance, atol=tolerance)


def leaves(seed: int = 0) -> list[Tensor]:
    tensors = [tensor.detach() for tensor in parameters(*[(4, 3)] * (len(PLACES) + 1), seed=seed)]
    return [placed(one, *place).requires_grad_() for one, place in zip(tensors, PLACES, strict=False)] + [
        tensors[-1].requires_grad_()
    ]


def give(params: list[Tensor], number: int) -> None:
    for index, param in enumerate(params):
        generator = torch.Generator().manual_seed(100 * number + index)
        grad = torch.randn(param.shape, generator=generator)
        param.grad = placed(grad, *PLACES[index]) if index < len(PLACES) else grad


def fully_sharded(optimizer: Any, layers: nn.Module, steps: int, first: int = 0) -> None:
    for number in range(first, first + steps):
        loss(layers, number).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()


def poison(layers: nn.Module) -> None:
    """Put an infinity where only the last rank sees it, if it has elements there."""
    grad: Any = next(layers.parameters()).grad
    if rank() == size() - 1:
        grad._local_tensor.view(-1)[0] = INF
