"""Programs and networks, drawn by hypothesis, that use weights and buffers in regions and write to them in between.

A program writes to buffers in ways that leave no trace, to weights in ways that do. Each value that it computes must be
that of stock autocast without a cache. Where a program writes to weights without a trace, stock's own cache is the
measure: both give the same values, new or old. The gradients of networks, with aliases of their weights alive, must be
those of stock bit for bit.
"""

import copy
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import polycast
import torch
from hypothesis import strategies as st
from polycast import cast_cache
from torch import Tensor, nn

from tests.cast_cache.stock import module_of, stock
from tests.cast_cache.writes import BUFFERS, CHANGES, NOT_ON_XLA, SIZE, of_data
from tests.support.devices import lower_precision

BF16 = torch.bfloat16
Train = Callable[[nn.Module, Tensor], object]

MODES: dict[str, Callable[[], Any]] = {
    "enable_grad": torch.enable_grad,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}
USES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "matmul": torch.matmul,
    "linear": torch.nn.functional.linear,
    "twice": lambda x, weight: x @ weight @ weight,
    "cat": lambda x, weight: torch.cat([x.expand(SIZE, SIZE), weight]),
    "prod": lambda x, weight: (x @ weight).prod(-1),
}


class Act(NamedTuple):
    """A use of a weight with a buffer, "refill" of the buffer, a write to the weight by its name, or "leave"."""

    name: str
    buffer: int
    weight: int
    value: float


class Enter(NamedTuple):
    """The start of a region of polycast's or of torch's, in a grad mode."""

    mode: str
    dtype: torch.dtype
    is_torchs: bool


class Program(NamedTuple):
    """Acts in regions that are entered and left in between, and the tensors that they work on.

    With `hidden` it writes to weights without a trace, in no other way, and stays in one dtype and region at a time.
    """

    acts: list[Act | Enter]
    buffers: tuple[int, ...]
    aliased: tuple[bool, ...]
    kept: tuple[bool, ...]
    hidden: bool


@st.composite
def programs(draw: st.DrawFn, device: str) -> Program:
    """Draw a program for a device."""
    on_xla = device == "xla"
    hidden = not on_xla and draw(st.sampled_from([False, False, False, True]))  # XLA sees such writes
    writes = ["hidden"] if hidden else [*CHANGES, *(() if on_xla else NOT_ON_XLA)]
    uses = st.sampled_from(list(USES))
    names = st.one_of(uses, uses, uses, st.just("refill"), st.sampled_from(writes), st.just("leave"))
    values = st.sampled_from([1.0, 0.5, 1.3])
    acts = st.builds(Act, names, st.integers(0, 2), st.integers(0, 3), values)
    # On XLA no view of a weight can be made in inference mode.
    modes = st.sampled_from(list(MODES)[: 2 if on_xla or hidden else 3])
    dtypes = st.sampled_from([BF16] if hidden else lower_precision(device))
    enters = st.builds(Enter, modes, dtypes, st.booleans())
    flags = st.tuples(*[st.booleans()] * 4)
    most = 12 if on_xla else 40  # each use compiles on XLA
    least = draw(st.integers(0, most // 2))
    return Program(
        [draw(enters), *draw(st.lists(st.one_of(*[acts] * 7, enters), min_size=least, max_size=most))],
        draw(st.tuples(*[st.integers(0, len(BUFFERS) - 1)] * 3)),
        draw(flags),
        (False,) * 4 if hidden else draw(flags),
        hidden,
    )


class Run:
    """A run of a program on a device, with tensors of its own."""

    def __init__(self, program: Program, device: str) -> None:
        self.program, self.device = program, device
        makers = [BUFFERS[index] if device == "cpu" else lambda: of_data(device) for index in program.buffers]
        self.buffers = [make() for make in makers]
        numbers = torch.Generator().manual_seed(0)
        self.weights = [nn.Parameter(torch.rand(SIZE, SIZE, generator=numbers).to(device)) for _ in range(4)]
        self.weights[2].data = self.weights[2].data.bfloat16()
        self.weights[3].requires_grad_(False)
        self.aliases = [weight.detach() for weight, held in zip(self.weights, program.aliased, strict=True) if held]
        self.kept = [weight for weight, held in zip(self.weights, program.kept, strict=True) if held]
        self.values: list[Tensor] = []

    def run(self, cache: bool) -> list[Tensor]:
        """Return the values of its uses in regions."""
        kept = module_of(*self.kept)
        cast_cache.keep(kept)
        regions: list[ExitStack] = []
        with ExitStack() as all_regions:
            for act in self.program.acts:
                if isinstance(act, Enter):
                    if len(regions) < (1 if self.program.hidden else 3):
                        regions.append(all_regions.enter_context(ExitStack()))
                        self._enter(act, regions[-1], cache)
                elif regions and act.name == "leave":
                    regions.pop().close()
                elif regions:
                    self._act(act)
        cast_cache.release(kept)
        return self.values

    def _enter(self, region: Enter, stack: ExitStack, cache: bool) -> None:
        autocast = torch.autocast if region.is_torchs else polycast.autocast
        stack.enter_context(MODES[region.mode]())
        stack.enter_context(autocast(self.device, dtype=region.dtype, cache_enabled=cache))

    def _act(self, act: Act) -> None:
        (x, refill), weight = self.buffers[act.buffer], self.weights[act.weight]
        if act.name in USES:
            self.values.append(USES[act.name](x, weight).detach().cpu().float())
        elif act.name == "refill":
            refill(act.value)
        elif act.name == "hidden":
            weight.data.mul_(act.value)
        elif not torch.is_inference_mode_enabled():
            {**CHANGES, **NOT_ON_XLA}[act.name](weight, act.value)


def check_program(program: Program, device: str) -> None:
    """Run a program under stock and under polycast; the values are the same."""
    with stock(device):
        expected = Run(program, device).run(cache=program.hidden)
    found = Run(program, device).run(cache=True)
    assert len(found) == len(expected)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(one, other), f"value {number}: {one}, and with stock {other}"


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(SIZE, SIZE),
    "without bias": lambda: nn.Linear(SIZE, SIZE, bias=False),
    "convolution": lambda: nn.Sequential(nn.Unflatten(1, (1, SIZE)), nn.Conv1d(1, 1, 3, padding=1), nn.Flatten()),
    "transformer": lambda: nn.TransformerEncoderLayer(SIZE, 2, 8, dropout=0.0),
    "layer norm": lambda: nn.LayerNorm(SIZE),
    "batch norm": lambda: nn.BatchNorm1d(SIZE),
}


class Plan(NamedTuple):
    """The layers of a network, the order in which they are used, and whether the first is trained."""

    layers: list[str]
    order: list[int]
    trained: bool


PLANS = st.builds(
    Plan,
    st.lists(st.sampled_from(list(LAYERS)), min_size=1, max_size=5),
    st.lists(st.integers(0, 5), min_size=1, max_size=10),
    st.booleans(),
)


class Network(nn.Module):
    """Layers around one cell, some of them used more than once, and one whose weight is also that of the output."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [LAYERS[name]() for name in plan.layers]
        layers[0].requires_grad_(plan.trained)
        tied, self.last = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)
        tied.weight = self.last.weight
        self.layers = nn.ModuleList([*layers, tied])
        self.cell = nn.GRUCell(SIZE, SIZE)
        self.order = [index % len(self.layers) for index in plan.order]

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


def gradients(network: nn.Module, train: Train) -> list[Tensor]:
    """Train a copy of a network with aliases alive; return the gradients of five steps, and then the weights."""
    torch.manual_seed(0)
    network, seen = copy.deepcopy(network), []
    aliases = [copy.copy(network.state_dict()), copy.deepcopy(network)]
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        train(network, torch.randn(4, SIZE))
        seen += [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]
        optimizer.step()
    del aliases
    return seen + [parameter.detach() for parameter in network.parameters()]


def check_network(plan: Plan, train: Train, kept: bool) -> None:
    """Train a network under stock and under polycast; the gradients are the same bits."""
    network = Network(plan)
    with stock():
        expected = gradients(network, train)
    keeping: list[nn.Module] = []

    def keep_and_train(network: nn.Module, x: Tensor) -> None:
        if kept and not keeping:
            keeping.append(network)
            cast_cache.keep(network)
        train(network, x)

    found = gradients(network, keep_and_train)
    for module in keeping:
        cast_cache.release(module)
    assert len(found) == len(expected) > 0
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
