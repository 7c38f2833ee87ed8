"""Faults at drawn places of real models' training.

A dispatch mode below everything makes one op's result 1 % wrong, which compare has to name as the worst, or puts an
infinity or a NaN into it, which watch has to name as the first. And what watch advises avoids its findings.
"""

import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import polycast
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polycast.debug.calls import Site
from polycast.debug.measure import read_numbers
from polycast.debug.ops import floating, is_cast, is_view, unique, written
from polycast.debug.values import Op, Values
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.models.architectures import bert, llama, resnet
from tests.support.properties import TIMES, examples

pytestmark = pytest.mark.usefixtures("one_thread")


def attention() -> tuple[nn.Module, list[Tensor]]:
    """A layer of a transformer."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu")
    return nn.Sequential(layer, nn.Linear(8, 4)), [torch.rand(2, 3, 8)]


Spoil = Callable[[Tensor], object]
MODELS = st.integers(0, 2)
INF = float("inf")
WIDTH = 8  # of the networks of branches
ROUNDS = 12  # in which their advice is followed


class Plant(TorchDispatchMode):
    """Spoils the result of one call of the program: the call with this number, of the calls that compute."""

    def __init__(self, number: int, spoil: Spoil) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._left = number
        self._spoil = spoil

    def __torch_dispatch__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        outputs = unique([*floating(result), *written(function, args, kwargs or {})])
        if outputs and _computes(function) and _is_of_program():
            if self._left == 0:
                self._spoil(outputs[0])
            self._left -= 1
        return result


def _computes(function: Any) -> bool:
    return not (is_view(function) or is_cast(function))


def _is_of_program() -> bool:
    """Return whether the observer above runs the program's own call, rather than makes one to measure it."""
    frame = sys._getframe(2)
    while frame.f_code.co_name == "__call__" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code in (Op.run.__code__, Values.__torch_dispatch__.__code__)


def one_percent(tensor: Tensor) -> object:
    """Make a tensor 1 % wrong."""
    return tensor.mul_(1.01)


def put(value: float) -> Spoil:
    """Return what puts a value in a tensor's first place."""

    def spoil(tensor: Tensor) -> object:  # not through a view, which XLA cuts off here
        places = torch.arange(tensor.numel(), device=tensor.device).reshape(tensor.shape)
        return tensor.masked_fill_(places == 0, value)

    return spoil


class Training(NamedTuple):
    """A model's iteration on a device, with an optimizer's step where it has one."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batch: Any
    device: str

    def run(self) -> None:
        """Go forward and backward."""
        with polycast.autocast(self.device, torch.bfloat16):  # float16 would need a scaler
            output = self.model(self.batch)
            loss = (output if isinstance(output, Tensor) else output.logits).float().square().mean()
        loss.backward()

    def step(self) -> None:
        """Go forward and backward, and step."""
        self.run()
        self.optimizer.step()


def training(number: int, device: str) -> Training:
    """Return a training of one of the architectures."""
    torch.manual_seed(number)
    # On XLA each op's check is compiled, which takes minutes for more.
    builds: tuple[Callable[[], tuple[nn.Module, Any]], ...] = (attention,) if device == "xla" else (resnet, bert, llama)
    model, batches = builds[number % len(builds)]()
    model.to(device)
    return Training(model, polycast.syncfree.AdamW(model.parameters()), batches[0].to(device), device)


class Place(NamedTuple):
    """A call that can be spoiled."""

    number: int
    site: Site


def places(train: Training, run: Callable[[], None], *, twice: bool) -> list[Place]:
    """Return the calls of a run whose results are not zero; `twice`: that are the same in a second run."""
    found: list[Place] = []
    sizes: list[Tensor] = []
    count = 0

    def visit(op: Op) -> None:
        nonlocal count
        op.run()
        if op.outputs and _computes(op.function):
            same = torch.Tag.nondeterministic_seeded not in op.function.tags
            if op.outputs[0].numel() > 0 and (same or not twice):
                found.append(Place(count, op.site))
                sizes.append(op.outputs[0].detach().any().float())
            count += 1

    with Values(train.model, visit):
        run()
    train.model.zero_grad()
    return [place for place, size in zip(found, read_numbers(sizes), strict=True) if size > 0]


@given(data=st.data())
@examples(3)
def test_compare_names_the_op_that_is_one_percent_wrong(real_device: str, data: st.DataObject) -> None:
    if real_device == "xla":
        pytest.skip("XLA's own bfloat16 is off by as much")
    train = training(data.draw(MODELS, "model"), real_device)
    place = data.draw(st.sampled_from(places(train, train.run, twice=True)), "place")
    with Plant(place.number, one_percent):
        worst = max(polycast.debug.compare(train.run, model=train.model), key=lambda row: row.local or 0)
    assert worst.site == place.site


@given(data=st.data())
@examples(6)
def test_watch_names_the_op_that_makes_an_infinity_or_a_nan(real_device: str, data: st.DataObject) -> None:
    if real_device == "xla" and TIMES == 1:
        pytest.skip("each op's check is compiled, which takes minutes; TIMES=10 runs it")
    number = data.draw(MODELS, "model")
    train = training(number, real_device)
    place = data.draw(st.sampled_from(places(train, train.step, twice=False)), "place")
    value = data.draw(st.sampled_from([INF, -INF, float("nan")]), "value")
    train = training(number, real_device)
    with warnings.catch_warnings(), Plant(place.number, put(value)):
        warnings.simplefilter("ignore")
        with polycast.debug.watch(train.model, train.optimizer) as watch:
            train.step()
    assert watch.findings and watch.findings[0].site == place.site


class Branch(nn.Module):
    """A pre-norm branch next to a residual, which stays in float32."""

    def __init__(self, activation: Any, norm: Any, attends: bool, dropout: float, gain: float) -> None:
        super().__init__()
        inner = [nn.Linear(WIDTH, 2 * WIDTH), activation(), nn.Linear(2 * WIDTH, WIDTH), nn.Dropout(dropout)]
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True) if attends else None
        self.norm, self.inner, self.gain = norm(WIDTH), nn.Sequential(*inner), gain

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the residual and of the branch."""
        y = self.norm(x)
        if self.attention is not None:
            y = self.attention(y, y, y, need_weights=False)[0]
        return x + self.inner(y) * self.gain  # type: ignore[no-any-return]


BRANCHES = st.fixed_dictionaries(
    {
        "activation": st.sampled_from([nn.Identity, nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh]),
        "norm": st.sampled_from([nn.LayerNorm, nn.RMSNorm]),
        "attends": st.booleans(),
        "dropout": st.sampled_from([0.0, 0.1]),
        "gain": st.sampled_from([1.0, 0.5, 30.0]),
    }
)


@given(
    branches=st.lists(BRANCHES, min_size=1, max_size=3),
    ends_in_norm=st.booleans(),
    has_rule=st.sampled_from([False, False, True]),
    scale=st.integers(18, 30),
)
@examples(6)
def test_advice_for_branches_beside_a_float32_residual_avoids_what_was_found(
    branches: list[dict[str, Any]], ends_in_norm: bool, has_rule: bool, scale: int
) -> None:
    """The loss is scaled by far too much. The first finding's advice is followed until there is none."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(16, WIDTH), *(Branch(**branch) for branch in branches))
    model.append(nn.LayerNorm(WIDTH) if ends_in_norm else nn.Identity()).append(nn.Linear(WIDTH, 16))
    if has_rule:
        polycast.assign(model, {str(len(model) - 3): {"linear": "float16"}})
    tokens = torch.randint(0, 16, (2, 4))

    def found() -> list[Any]:
        torch.manual_seed(0)
        model.zero_grad()
        with polycast.debug.watch(model) as watch:
            with polycast.autocast("cpu", torch.float16):
                loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            (loss * 2.0**scale).backward()  # type: ignore[no-untyped-call]
        return watch.findings

    rules = polycast.Policy({})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            findings = found()
            for _ in range(ROUNDS):
                if not findings:
                    break
                first = findings[0]
                rules = _follow(first.remedy, model, rules)
                findings = found()
                assert not any((one.site, one.op) == (first.site, first.op) for one in findings), first
    finally:
        polycast.use(None)
    assert not findings


def _follow(remedy: str, model: nn.Module, rules: polycast.Policy) -> polycast.Policy:
    """Do as a finding's text says, with all that was advised before."""
    _, _, code = remedy.partition("polycast.")
    given = eval(f"polycast.{code}", {"polycast": polycast, "model": model}) if code else None
    if isinstance(given, polycast.Policy):
        rules = rules | given
        polycast.use(rules)
    return rules
