"""The results of a model in autocast regions on a device, by name: outputs, gradients, buffers, weights, dtypes."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from polycast.cast_by_hand import same_bits
from torch import Tensor, nn
from torch.utils._pytree import keystr, tree_leaves_with_path

from tests.support.devices import seed, synchronize

# Results have outputs, gradients, buffers and weights of a model, and the dtypes of its modules' outputs, by name.
Results = dict[str, Tensor | torch.dtype]
Regions = Callable[[], AbstractContextManager[Any]]


class Way(NamedTuple):
    """The way in which a model runs: with or without gradients, in one region for all batches or a region for each."""

    train: bool
    one_region: bool

    def __str__(self) -> str:
        return f"{'train' if self.train else 'eval'}-{'one_region' if self.one_region else 'region_each'}"


WAYS = [Way(train, one_region) for train in (True, False) for one_region in (True, False)]


def run(build: Callable[[], tuple[nn.Module, list[Tensor]]], device: str, way: Way, region: Regions) -> Results:
    """Run a model from a fixed seed, and return the results for its batches and the dtypes in its modules' outputs.

    In training with a region for each batch, the weights change after each region. In one region, they do not change.
    """
    torch.manual_seed(0)
    model, batches = build()
    model.train(way.train).to(device)
    results: Results = {}

    def note(module: nn.Module, _: Any, output: Any) -> None:
        for _, tensor in named_tensors("", output):
            results[f"{len(results)}: {type(module).__name__}"] = tensor.dtype

    for module in model.modules():
        module.register_forward_hook(note)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)  # All batches then add to an existing gradient.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seed(device)
    synchronize(device)
    outside, inside = (region, nullcontext) if way.one_region else (nullcontext, region)
    with outside(), torch.set_grad_enabled(way.train):
        for number, batch in enumerate(batches):
            with inside():
                outputs = dict(named_tensors(f"output {number}", model(batch.to(device))))
            if way.train:
                loss(outputs).backward()  # type: ignore[no-untyped-call]
                if not way.one_region:
                    optimizer.step()
            synchronize(device)
            results |= {name: output.detach().cpu() for name, output in outputs.items()}
    results |= {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    gradients = ((name, parameter.grad) for name, parameter in model.named_parameters())
    return results | {f"{name}.grad": grad.cpu() for name, grad in gradients if grad is not None}


def named_tensors(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in nested containers, each with its path."""
    for path, leaf in tree_leaves_with_path(value):
        if isinstance(leaf, Tensor):
            yield f"{name}{keystr(path)}", leaf


def loss(outputs: dict[str, Tensor]) -> Tensor:
    """Return a number to which every output with a gradient contributes."""
    return torch.stack([output.float().square().mean() for output in outputs.values() if output.requires_grad]).sum()


def different(ours: Results, stock: Results) -> list[str]:
    """Return the results that only one run has or, if there are none, the results that differ in dtype or bits."""
    if ours.keys() != stock.keys():
        return [name for name in {**ours, **stock} if (name in ours) != (name in stock)]
    return [name for name in ours if not _same(ours[name], stock[name])]


def _same(mine: Tensor | torch.dtype, other: Tensor | torch.dtype) -> bool:
    if isinstance(mine, torch.dtype) or isinstance(other, torch.dtype):
        return mine is other
    return same_bits(mine, other)
