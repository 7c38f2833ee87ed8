"""Models with planted culprits: single rules whose precision makes a check fail on the CPU. Each says which they are.

In most a signal lies on a large offset, or outside of the range of float16, and the next op removes what is too much.
"""

from collections.abc import Callable, Mapping
from math import ceil, log
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import polycast
import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from polycast.debug.bisection.result import Bisection

Check: TypeAlias = Callable[[], bool]
Rules: TypeAlias = set[tuple[str, str]]  # (op, module); the module is "" for the model itself and outside of it
Prepare: TypeAlias = Callable[[Random], tuple[nn.Module, Check]]
BF16, FP16 = torch.bfloat16, torch.float16
SIZE = 16


class Planted(NamedTuple):
    """A check that is good in float32 and fails under a policy, by the precision of the culprits alone."""

    name: str
    prepare: Prepare
    """Draws the model and what it needs. The check runs the model, or copies of it, and returns True for good."""
    culprits: list[Rules]
    """Each set makes the check fail by itself, and no part of it does."""
    bad: Mapping[str, Any]
    """The rules over the built-in ones under which the check fails."""
    fails: float
    """The share of the runs under these that fail."""

    @property
    def repeat(self) -> int:
        """How often rules must run so that bad ones are taken for good in one of 200 cases at most."""
        return 1 if self.fails == 1 else ceil(log(0.005) / log(1 - self.fails))

    def named(self, found: "Bisection") -> int:
        """Return how many of the sets a search found; 0 if it names anything else, or did not prove it."""
        sets: dict[int, Rules] = {}
        for culprit in found.culprits:
            sets.setdefault(culprit.group, set()).add((culprit.op, culprit.module))
        right = found.proved and all(rules in self.culprits for rules in sets.values())
        return len(sets) if right else 0

    def make(self, seed: int | None = None) -> tuple[nn.Module, Check]:
        """Return a new model and its check. The seed draws which runs fail; None draws others each time."""
        torch.manual_seed(0)
        return self.prepare(Random(seed))


PLANTED: dict[str, Planted] = {}


def planted(*culprits: Rules, bad: Mapping[str, Any] | None = None, fails: float = 1.0) -> Callable[[Prepare], Prepare]:
    """Collect a function that draws a model and returns its check."""

    def collect(prepare: Prepare) -> Prepare:
        PLANTED[prepare.__name__] = Planted(prepare.__name__, prepare, [*culprits], bad or {}, fails)
        return prepare

    return collect


def near(run: Callable[[], Tensor], dtype: torch.dtype = BF16) -> Check:
    """Return a check that a run in a region differs by less than a tenth from one in float32."""
    exact = run().detach()

    def check() -> bool:
        with polycast.autocast("cpu", dtype=dtype):
            result = run().detach()
        return bool((result - exact).norm() <= 0.1 * exact.norm())

    return check


class Apply(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Tensor:
        return self.function(x)


def offset(layer: Any, by: float = 1000.0) -> Any:
    """Return the layer with a number added to all that it returns."""
    nn.init.constant_(layer.bias, by)
    return layer


def scaled(layer: Any, by: float) -> Any:
    """Return the layer with weights multiplied by a number."""
    layer.weight.data.mul_(by)
    return layer


def linear() -> nn.Linear:
    return nn.Linear(SIZE, SIZE)


class MLP(nn.Sequential):
    """Linear layers at 0, 3, 6, ..., each with a norm and an activation."""

    def __init__(self, depth: int, layers: Mapping[int, nn.Module] | None = None) -> None:
        chosen = [(layers or {}).get(place, linear()) for place in range(depth)]
        super().__init__(*(part for layer in chosen for part in (layer, nn.LayerNorm(SIZE), nn.ReLU())))


@planted({("linear", "111")})
def mlp(_: Random) -> tuple[nn.Module, Check]:
    """A large bias before a norm, in a deep network."""
    model, x = MLP(40, {37: offset(linear())}), torch.randn(8, SIZE)
    return model, near(lambda: model(x))


class Attention(nn.Module):
    """Attention over keys with an offset that the softmax removes."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.queries, self.keys, self.values = linear(), linear(), scaled(linear(), 10)
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = 3 * self.queries(x), self.keys(x).float() + self.by, self.values(x)
        return x + torch.matmul((torch.matmul(q, k.mT) / SIZE**0.5).softmax(-1), v)


@planted({("matmul", "2")})
def attention(_: Random) -> tuple[nn.Module, Check]:
    """Scores on a large offset, in attention."""
    model = nn.Sequential(*(Attention(by) for by in (0, 0, 10_000, 0)))
    x = torch.randn(4, 8, SIZE)
    return model, near(lambda: model(x))


@planted({("mkldnn_rnn_layer", "2")})
def lstm(_: Random) -> tuple[nn.Module, Check]:
    """An LSTM whose input is far from zero, between other layers."""
    layer = nn.LSTM(SIZE, SIZE, batch_first=True)
    weight = layer.get_parameter("weight_ih_l0").data
    weight.sub_(weight.mean(1, keepdim=True))  # removes the offset
    far, first = Apply(lambda x: x.mT.float() + 2000), Apply(lambda result: result[0])
    model, x = nn.Sequential(nn.Conv1d(4, SIZE, 3), far, layer, first, nn.Linear(SIZE, 5)), torch.randn(2, 4, 12)
    return model, near(lambda: model(x))


@planted({("linear", "1")})
def loop(_: Random) -> tuple[nn.Module, Check]:
    """A module that is called four times: what it returns grows until it overflows in float16."""
    cell, norm = scaled(linear(), 60), Apply(lambda x: F.normalize(x.float(), dim=-1))
    model, x = nn.Sequential(linear(), *[cell] * 4, norm, linear()), torch.randn(4, SIZE)
    return model, near(lambda: model(x), FP16)


@planted({("linear", "2")})
def tied(_: Random) -> tuple[nn.Module, Check]:
    """An autoencoder whose two halves share a weight."""
    encoder, bias = nn.Linear(SIZE, 8), torch.full((SIZE,), 1000.0)
    decode = Apply(lambda x: F.layer_norm(F.linear(x, encoder.weight.mT, bias), (SIZE,)))
    model, x = nn.Sequential(encoder, nn.ReLU(), decode), torch.randn(8, SIZE)
    return model, near(lambda: model(x))


@planted({("mm", "")})
def distances(_: Random) -> tuple[nn.Module, Check]:
    """Distances by the product of all pairs, outside of modules, where large numbers cancel."""
    model, x = nn.Sequential(linear(), nn.Tanh(), linear()), torch.randn(8, SIZE)

    def run() -> Tensor:
        y: Tensor = model(x).float() + 50
        squares = y.square().sum(1)
        return squares[:, None] + squares[None] - 2 * torch.mm(y, y.T).float()

    return model, near(run)


@planted({("linear", "1")})
def gradients(_: Random) -> tuple[nn.Module, Check]:
    """The backward of a layer whose gradients cancel in their sum; its forward is safe."""
    head, x = linear(), torch.randn(64, SIZE)
    model, weights = nn.Sequential(MLP(4), head), torch.tensor([1000.0, -1000.0]).repeat(32)[:, None]

    def run() -> Tensor:
        model.zero_grad()
        (model(x).float() * (weights + x)).sum().backward()
        return torch.zeros(0) if head.bias.grad is None else head.bias.grad.clone()

    return model, near(run)


class Branches(nn.ModuleDict):
    """Two layers whose signals lie on an offset, and others behind them."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        left, right = self["left"](x).flatten(1).float(), self["right"](x[:, 0, 0]).float()
        self["body"](left - 1000 + right - 1000)
        return left, right


def branches(good: Callable[[float, float], bool]) -> tuple[nn.Module, Check]:
    """Return a model and a check on the relative errors of both branches, which are 1 or far below 0.1."""
    layers = {"left": offset(nn.Conv2d(1, SIZE, (8, SIZE))), "right": offset(linear()), "body": MLP(3)}
    model, x = Branches(layers), torch.randn(64, 1, 8, SIZE)
    exact = [result.detach() for result in model(x)]

    def check() -> bool:
        with torch.no_grad(), polycast.autocast("cpu"):
            pairs = list(zip(model(x), exact, strict=True))
        return good(*(((ours - other).norm() / (other - 1000).norm()).item() for ours, other in pairs))

    return model, check


LEFT, RIGHT = ("conv2d", "left"), ("linear", "right")


@planted({LEFT, RIGHT})
def sum_of_errors(_: Random) -> tuple[nn.Module, Check]:
    """Two errors that leave the tolerance together only."""
    return branches(lambda left, right: left + right < 1.5)


@planted({LEFT, RIGHT})
def best_of_two(_: Random) -> tuple[nn.Module, Check]:
    """Two ways to a result, of which the better one is taken."""
    return branches(lambda left, right: min(left, right) < 0.1)


@planted({LEFT}, {RIGHT})
def either_of_two(_: Random) -> tuple[nn.Module, Check]:
    """Two results that must be right, each of which is wrong by itself."""
    return branches(lambda left, right: max(left, right) < 0.1)


@planted({("layer_norm", "7")}, bad={"layer_norm": "lower_precision_fp"})
def user_rule(_: Random) -> tuple[nn.Module, Check]:
    """A rule of the user's, which one of many norms does not bear."""
    far = nn.Sequential(linear(), Apply(lambda x: x.float() + 1000))
    model, x = MLP(6, {2: far}), torch.randn(8, SIZE)
    return model, near(lambda: model(x))


@planted({("cumsum", "0")}, bad={"cumsum": "bfloat16"})
def places(_: Random) -> tuple[nn.Module, Check]:
    """Angles that grow along a text, of which bfloat16 keeps eight bits."""
    first = Apply(lambda words: (3.0 * words).cumsum(1).float()[..., None].sin())
    model, x = nn.Sequential(first, nn.Linear(1, SIZE), nn.Tanh(), nn.Linear(SIZE, 1)), torch.ones(2, 600)
    return model, near(lambda: model(x))


@planted({("linear", "0")}, fails=1 / 3)
def outliers(draw: Random) -> tuple[nn.Module, Check]:
    """Batches of which one in three is infinite in float16 behind one of the layers."""
    model, x = MLP(5, {0: scaled(linear(), 2000)}), torch.randn(8, SIZE)
    usual, outlier = near(lambda: model(x), FP16), near(lambda: model(100 * x), FP16)
    return model, lambda: outlier() if draw.random() < 1 / 3 else usual()
