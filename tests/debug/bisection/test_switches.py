"""Rules between two policies: what a program of modules within modules is given, and what bisect finds in it."""

import random
from functools import cache

import polycast
import pytest
import torch
from polycast.debug.bisection.bisecting import Bisecting
from polycast.debug.bisection.log import Run
from polycast.debug.bisection.result import Bisection
from polycast.debug.bisection.switches import Between, Switch, Trial
from torch import nn

from tests.support.properties import TIMES

SEEDS = range(20 * TIMES)
OPS = ("linear", "matmul", "conv2d", "bmm", "addmm", "scaled_dot_product_attention", "relu", "softmax")
BAD = {op: polycast.policy.category(op, "cpu") for op in OPS}
GOOD = polycast.Policy(dict.fromkeys(OPS, "fp32"))
NONE = polycast.Policy()
LISTED = [op for op in OPS if BAD[op] != "fp32"]


@cache
def rules(policy: polycast.Policy) -> dict[str, str]:
    held = [rule for rule in policy.by_overload() if rule.device == "cpu" and rule.overload in ("default", "int")]
    return {rule.op: rule.category for rule in held}


def held(trial: Trial, call: Switch) -> str:
    """Return the category of a call: that of the innermost module that has a rule, else of the process."""
    name = call.module
    while call.op not in rules(trial.modules.get(name, NONE)) and name:
        name = name.rpartition(".")[0]
    return {**BAD, **rules(trial.policy), **rules(trial.modules.get(name, NONE))}[call.op]


class Fake:
    """A program that is bad if all calls of any culprit have the category that they have in "bad"."""

    def __init__(self, culprits: list[list[Switch]], rate: float = 1.0) -> None:
        self.culprits = culprits
        self._draw, self._rate = random.Random(0), rate

    def __call__(self, trial: Trial) -> Run:
        is_bad = any(all(held(trial, call) == BAD[call.op] for call in culprit) for culprit in self.culprits)
        return Run(int(is_bad and self._draw.random() < self._rate), 0.0, "")


class Node(nn.Module):
    """A module that is called."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def drawn(seed: int) -> tuple[random.Random, nn.Module, list[Switch]]:
    """Return a model of modules within modules, and the calls in it that can be culprits."""
    draw = random.Random(seed)
    model = Node()
    for number in range(draw.randrange(1, 12)):
        draw.choice([*model.modules()]).add_module(f"m{number}", Node())
    names = [name for name, _ in model.named_modules()]
    return draw, model, [Switch(op, name) for name in names for op in LISTED if draw.random() < 0.4]


def found_in(fake: Fake, model: nn.Module | None, repeat: int = 1) -> Bisection:
    return Bisecting(fake, GOOD, "built-in", repeat, None, {}, lambda _: None, model=model).run()


@pytest.mark.parametrize("sizes", [[1], [2], [3], [1, 1], [2, 1]], ids=str)
def test_hidden_culprits_are_found_at_their_modules(sizes: list[int]) -> None:
    for seed in SEEDS:
        draw, model, able = drawn(seed)
        if len(able) < sum(sizes):
            continue
        chosen = draw.sample(able, sum(sizes))
        culprits = [[chosen.pop() for _ in range(size)] for size in sizes]
        found = found_in(Fake(culprits), model)
        groups = [{(one.op, one.module) for one in found.culprits if one.group == number} for number in range(9)]
        assert sorted(map(sorted, filter(None, groups))) == sorted(map(sorted, culprits))
        assert found.proved
        # No other call has another category than in "bad".
        trial = Trial(found.policy, found.modules)
        calls = [Switch(op, name) for name, _ in model.named_modules() for op in OPS]
        assert {call for call in calls if held(trial, call) != BAD[call.op]} == {
            call for culprit in culprits for call in culprit
        }


def test_a_program_that_fails_one_run_in_three_needs_twelve() -> None:
    for seed in SEEDS:
        draw, model, able = drawn(seed)
        if able:
            culprit = draw.choice(able)
            found = found_in(Fake([[culprit]], rate=1 / 3), model, repeat=24)
            assert [one[:2] for one in found.culprits] == [culprit]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_modules_that_take_no_rules_are_left_out() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.layers = nn.MultiheadAttention(4, 1), nn.ModuleList([nn.Linear(4, 4)])
            self.scripted, self.again = torch.jit.script(nn.Linear(4, 4)), self.layers[0]

    model = Net()
    between = Between(GOOD, NONE, model)
    places = {switch.module for switch in between.switches}
    assert places == {"", "attention", "layers.0"}
    with polycast.assign(model, between.rules([Switch("linear", "")]).modules) as given:
        assert {*given} == {"attention", "layers.0", "again"}
