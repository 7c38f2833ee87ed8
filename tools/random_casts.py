"""Random programs over the cast cache beside stock autocast: `python -m tools.random_casts 3000 [xla]`.

A program uses weights and buffers in regions and writes to them in between: to buffers in ways that leave no trace, to
weights in ways that do. Each value that it computes must be that of stock autocast without a cache. Where a program
writes to weights without a trace, stock's own cache is the measure: both give the same values, new or old. And the
gradients of random networks, with aliases of their weights alive, must be those of stock bit for bit.
"""

import copy
import sys
from collections.abc import Callable
from contextlib import ExitStack
from random import Random
from typing import Any

import numpy as np
import polycast
import torch
from polycast import cast_cache
from torch import Tensor, nn
from torch.utils.dlpack import from_dlpack
from tqdm import trange

from tests.cast_cache.stock import stock

BF16, HALF = torch.bfloat16, torch.float16
SIZE = 4
Refill = Callable[[float], object]
Change = Callable[[nn.Parameter, float], None]
Train = Callable[[nn.Module, Tensor], object]


def from_numpy() -> tuple[Tensor, Refill]:
    array = np.zeros((SIZE, SIZE), dtype=np.float32)
    return torch.from_numpy(array), array.fill


def from_buffer() -> tuple[Tensor, Refill]:
    """A tensor of one dimension: any other would be a view."""
    memory = bytearray(4 * SIZE)
    return torch.frombuffer(memory, dtype=torch.float32), np.frombuffer(memory, np.float32).fill


def from_array() -> tuple[Tensor, Refill]:
    array = np.zeros((SIZE, SIZE), dtype=np.float32)
    return from_dlpack(array), array.fill


def to_capsule() -> tuple[Tensor, Refill]:
    tensor = torch.zeros(SIZE, SIZE)
    return tensor, from_dlpack(tensor).fill_


def of_storage() -> tuple[Tensor, Refill]:
    tensor = torch.zeros(SIZE, SIZE)
    return tensor, lambda value: tensor.untyped_storage().copy_(torch.full_like(tensor, value).untyped_storage())


def of_data(device: str = "cpu") -> tuple[Tensor, Refill]:
    tensor = torch.zeros(SIZE, SIZE, device=device)
    return tensor, lambda value: tensor.data.copy_(torch.full_like(tensor, value))


# Buffers, with what writes to each without a trace.
BUFFERS = [from_numpy, from_buffer, from_array, to_capsule, of_storage, of_data]


def without_grad(change: Callable[[nn.Parameter, float], object]) -> Change:
    def run(weight: nn.Parameter, value: float) -> None:
        with torch.no_grad():
            change(weight, value)

    return run


@torch.inference_mode()
def in_inference_mode(weight: nn.Parameter, value: float) -> None:
    weight.add_(value)


def load(weight: nn.Parameter, value: float) -> None:
    module = nn.Module()
    module.weight = weight
    module.load_state_dict({"weight": weight.detach() + value})


def new_data(weight: nn.Parameter, value: float) -> None:
    weight.data = weight.data + value


def new_data_twice(weight: nn.Parameter, value: float) -> None:
    """The second can get the address of the first."""
    new_data(weight, value)
    new_data(weight, value)


def swap_data(weight: nn.Parameter, value: float) -> None:
    weight.data, other = weight.data + value, weight.data
    other.add_(value)


def transpose_data(weight: nn.Parameter, _value: float) -> None:
    weight.data = weight.data.t()  # the same storage, address and version


def step(kind: type[torch.optim.Optimizer], **options: Any) -> Change:
    def change(weight: nn.Parameter, value: float) -> None:
        weight.grad = torch.full_like(weight, value)
        kind([weight], lr=0.5, **options).step()  # type: ignore[call-arg]

    return change


# Ways to write to a weight. All of them count a version or change something else that shows, or are told of.
CHANGES: dict[str, Change] = {
    "in-place operation": without_grad(lambda w, value: w.add_(value)),
    "operation on a view": without_grad(lambda w, value: w[0].mul_(1 + value)),
    "operation on a detached tensor": without_grad(lambda w, value: w.detach().add_(value)),
    "copy_": without_grad(lambda w, value: w.copy_(w + value)),
    "in inference mode": in_inference_mode,
    "load_state_dict": load,
    "new .data": new_data,
    "new .data, twice": new_data_twice,
    "swapped .data": swap_data,
    "a view as .data": transpose_data,
    "SGD": step(torch.optim.SGD),
    "AdamW": step(torch.optim.AdamW),
    "AdamW, foreach": step(torch.optim.AdamW, foreach=True),
    "polycast's SGD": step(polycast.syncfree.SGD),
    "polycast's AdamW": step(polycast.syncfree.AdamW),
}
HOST_CHANGES: dict[str, Change] = {
    "set_": without_grad(lambda w, value: w.set_(w + value)),  # type: ignore[call-overload]
    "foreach": without_grad(lambda w, value: torch._foreach_add_([w], value)),
    "Adam, fused": step(torch.optim.Adam, fused=True),
}

REGIONS: list[Callable[..., torch.autocast]] = [polycast.autocast, torch.autocast]
USES: list[Callable[[Tensor, Tensor], Tensor]] = [
    torch.matmul,
    torch.nn.functional.linear,
    lambda x, weight: x @ weight @ weight,
    lambda x, weight: torch.cat([x.expand(SIZE, SIZE), weight]),
    lambda x, weight: (x @ weight).prod(-1),
]


class Program:
    """A program of uses and writes, as a seed has it; it runs the same under any kernels.

    With `hidden` it writes to weights without a trace, in no other way, and stays in one type and one mode.
    """

    def __init__(self, seed: int, device: str, hidden: bool) -> None:
        self.random, self.device, self.hidden = Random(seed), device, hidden
        makers = BUFFERS if device == "cpu" else [lambda: of_data(device)]
        self.buffers = [self.random.choice(makers)() for _ in range(3)]
        numbers = torch.Generator().manual_seed(seed)
        self.weights = [nn.Parameter(torch.rand(SIZE, SIZE, generator=numbers).to(device)) for _ in range(4)]
        self.weights[2].data = self.weights[2].data.bfloat16()
        self.weights[3].requires_grad_(False)
        self.changes = [*CHANGES.values(), *(HOST_CHANGES.values() if device == "cpu" else ())]
        self.aliases = [weight.detach() for weight in self.weights if self.random.random() < 0.5]
        self.kept = [weight for weight in self.weights if not hidden and self.random.random() < 0.4]

    def run(self, cache: bool) -> list[Tensor]:
        """Return the values of its uses."""
        cast_cache.keep(self.kept)
        values: list[Tensor] = []
        for _ in range(self.random.randint(1, 3)):
            self._region(cache, values, depth=0)
        cast_cache.release(self.kept)
        return values

    def _region(self, cache: bool, values: list[Tensor], depth: int) -> None:
        dtypes = [BF16] if self.hidden or self.device == "xla" else [BF16, HALF]
        modes: list[Callable[[], Any]] = [torch.enable_grad, torch.no_grad]
        if self.device == "cpu" and not self.hidden:  # on XLA no view of a weight can be made there
            modes.append(torch.inference_mode)
        with ExitStack() as stack:
            stack.enter_context(self.random.choice(modes)())
            stack.enter_context(
                self.random.choice(REGIONS)(self.device, dtype=self.random.choice(dtypes), cache_enabled=cache)
            )
            for _ in range(self.random.randint(4, 12)):
                self._act(cache, values, depth)

    def _act(self, cache: bool, values: list[Tensor], depth: int) -> None:
        random, choice = self.random, self.random.random()
        (x, refill), weight, value = random.choice(self.buffers), random.choice(self.weights), random.uniform(0.5, 1.5)
        if choice < 0.55:
            values.append(random.choice(USES)(x, weight).detach().cpu().float())
        elif choice < 0.75:
            refill(value)
        elif choice < 0.95 and self.hidden:
            weight.data.mul_(value)
        elif choice < 0.95 and not torch.is_inference_mode_enabled():
            random.choice(self.changes)(weight, value)
        elif depth < 2 and not self.hidden:
            self._region(cache, values, depth + 1)


def check_program(seed: int, device: str = "cpu") -> int:
    """Run a program under stock and under polycast; return how many values were compared."""
    hidden = device == "cpu" and seed % 4 == 0  # XLA sees such writes
    with stock(device):
        expected = Program(seed, device, hidden).run(cache=hidden)
    found = Program(seed, device, hidden).run(cache=True)
    assert len(found) == len(expected)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(one, other), f"program {seed}, value {number}: {one}, and with stock {other}"
    return len(found)


class Network(nn.Module):
    """Random layers around one cell, some of them used more than once, some with a weight in common."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        random = Random(seed)
        torch.manual_seed(seed)
        makers: list[Callable[[], nn.Module]] = [
            lambda: nn.Linear(SIZE, SIZE, bias=random.random() < 0.5),
            lambda: nn.Sequential(nn.Unflatten(1, (1, SIZE)), nn.Conv1d(1, 1, 3, padding=1), nn.Flatten()),
            lambda: nn.TransformerEncoderLayer(SIZE, 2, 8, dropout=0.0),
            lambda: nn.LayerNorm(SIZE),
            lambda: nn.BatchNorm1d(SIZE),
        ]
        layers = [random.choice(makers)() for _ in range(random.randint(2, 5))]
        layers[0].requires_grad_(random.random() < 0.7)
        tied, self.last = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)
        tied.weight = self.last.weight
        self.layers = nn.ModuleList([*layers, tied])
        self.cell = nn.GRUCell(SIZE, SIZE)
        self.order = [random.randrange(len(self.layers)) for _ in range(2 * len(self.layers))]

    def forward(self, x: Tensor) -> Tensor:
        state = x
        for index in self.order:
            state = self.cell(x, self.layers[index](state))
        out: Tensor = self.last(state) @ self.last.weight.t()
        return out


def train_plainly(network: nn.Module, x: Tensor) -> None:
    """Run a forward pass in a region, and a backward pass after it."""
    with torch.autocast("cpu", BF16):
        loss = network(x).float().square().mean()
    loss.backward()


def gradients(network: nn.Module, train: Train, steps: int) -> list[Tensor]:
    """Train a copy of a network with aliases alive; return the gradients of every step, and at last the weights."""
    torch.manual_seed(0)
    network, seen = copy.deepcopy(network), []
    aliases = [copy.copy(network.state_dict()), copy.deepcopy(network)]
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        train(network, torch.randn(4, SIZE))
        seen += [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]
        optimizer.step()
    del aliases
    return seen + [parameter.detach() for parameter in network.parameters()]


def check_network(seed: int, train: Train = train_plainly, steps: int = 3, kept: bool = False) -> None:
    """Train a network under stock and under polycast; the gradients are the same bits."""
    network = Network(seed)
    with stock():
        expected = gradients(network, train, steps)
    keeping: list[nn.Module] = []

    def keep_and_train(network: nn.Module, x: Tensor) -> None:
        if kept and not keeping:
            keeping.append(network)
            cast_cache.keep(network)
        train(network, x)

    found = gradients(network, keep_and_train, steps)
    cast_cache.release(keeping)
    assert len(found) == len(expected) > 0
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True)), f"network {seed}"


def main(arguments: list[str]) -> None:
    """Run this many programs, and a tenth as many networks."""
    count, device = int(arguments[0]) if arguments else 3000, arguments[1] if len(arguments) > 1 else "cpu"
    torch.set_num_threads(1)
    values = sum(check_program(seed, device) for seed in trange(count, desc="programs"))
    print(f"{count} programs on {device}: {values} values equal")
    for seed in trange(count // 10, desc="networks"):
        check_network(seed, kept=seed % 2 == 0)
    print(f"{count // 10} networks: gradients equal")


if __name__ == "__main__":
    main(sys.argv[1:])
