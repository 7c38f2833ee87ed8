"""Injected faults at random locations in the training of real models.

If a call's result is 1 % wrong, ``compare`` must rank the call first. If the result contains an infinity or a NaN,
``watch`` must report the call first. After a program follows the advice of ``watch``, its findings must not return.
"""

import warnings
from collections.abc import Callable
from typing import Any

import polycast
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from polycast.debug.calls import Site
from torch import Tensor, nn

from tests.debug.ops_below import OpsBelow, results_of
from tests.support.models.architectures import bert, llama, resnet
from tests.support.models.runs import loss, named_tensors
from tests.support.properties import examples

pytestmark = pytest.mark.usefixtures("one_thread")

MODELS = st.sampled_from([resnet, bert, llama])
WIDTH = 8  # Models with branches have this width.
ROUNDS = 12  # The test follows the advice of at most this many findings.


class Training:
    """A training step of a model on a device."""

    def __init__(self, build: Callable[[], tuple[nn.Module, list[Tensor]]], device: str) -> None:
        if device == "xla":
            pytest.skip("XLA takes minutes to compile the checks of all ops")
        torch.manual_seed(0)
        self.model, (batch, *_) = build()
        self.model.to(device)
        self.batch, self.device = batch.to(device), device
        self.optimizer = polycast.syncfree.AdamW(self.model.parameters())

    def run(self) -> None:
        with polycast.autocast(self.device, torch.bfloat16):  # float16 would need a scaler.
            total = loss(dict(named_tensors("output", self.model(self.batch))))
        total.backward()  # type: ignore[no-untyped-call]

    def step(self) -> None:
        self.run()
        self.optimizer.step()

    def sites(self, run: Callable[[], None]) -> dict[int, Site]:
        """Return the site of each call in a run, keyed by the number of its last op with nonzero values."""
        found = results_of(run, self.model)
        self.model.zero_grad()
        return found


@given(build=MODELS, data=st.data())
@examples(3)
def test_compare_names_the_op_that_is_one_percent_wrong(build: Any, real_device: str, data: st.DataObject) -> None:
    train = Training(build, real_device)
    number, site = data.draw(st.sampled_from([*train.sites(train.run).items()]), "op")
    below = OpsBelow((number, lambda tensor: tensor.mul_(1.01)))

    def run() -> None:
        with below:
            train.run()

    worst = max(polycast.debug.compare(run, train.model), key=lambda row: row.local or 0)
    assert worst.site == site


@given(build=MODELS, value=st.sampled_from([float("inf"), -float("inf"), float("nan")]), data=st.data())
@examples(6)
def test_watch_names_the_op_that_produces_an_infinity_or_a_nan(
    build: Any, value: float, real_device: str, data: st.DataObject
) -> None:
    train = Training(build, real_device)
    number, site = data.draw(st.sampled_from([*train.sites(train.step).items()]), "op")
    train = Training(build, real_device)
    with warnings.catch_warnings(), polycast.debug.watch(train.model, train.optimizer) as watch:
        warnings.simplefilter("ignore")
        with OpsBelow((number, lambda tensor: tensor[(0,) * tensor.dim()].fill_(value))):
            train.step()
    assert watch.findings and watch.findings[0].shows[:2] == site[:2]


class Branch(nn.Module):
    """A residual block with a pre-norm branch. The residual stays in float32."""

    def __init__(self, activation: Any, norm: Any, attends: bool, dropout: float, gain: float) -> None:
        super().__init__()
        inner = [nn.Linear(WIDTH, 2 * WIDTH), activation(), nn.Linear(2 * WIDTH, WIDTH), nn.Dropout(dropout)]
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True) if attends else None
        self.norm, self.inner, self.gain = norm(WIDTH), nn.Sequential(*inner), gain

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the residual and the branch."""
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
def test_advice_for_branches_of_a_float32_residual_avoids_the_findings(
    branches: list[dict[str, Any]], ends_in_norm: bool, has_rule: bool, scale: int
) -> None:
    """The advice of ``watch`` removes all overflows due to a far too large loss scale, one finding after another."""
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
    advised: tuple[object, ...] = ()
    for _ in range(ROUNDS):
        with warnings.catch_warnings(), polycast.use(rules):
            warnings.simplefilter("ignore")
            findings = found()
        assert not any((one.site, one.shows) == advised for one in findings)
        if not findings:
            return
        advised = findings[0].site, findings[0].shows
        why, _, code = findings[0].remedy.partition("polycast.")
        assert why == "a GradScaler with a smaller init_scale avoids it; tried, and finite: "
        assert not findings[0].skipped  # The program has no scaler.
        given = eval(f"polycast.{code}", {"polycast": polycast, "model": model})
        rules |= given if isinstance(given, polycast.Policy) else {}
    pytest.fail(str(findings))
