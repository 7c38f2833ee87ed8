"""Rules between two plans: what a program of modules within modules is given, and what bisect finds in it."""

import random
from functools import cache

import polycast
import pytest
from polycast.debug.bisection.bisecting import Bisecting
from polycast.debug.bisection.log import Run
from polycast.debug.bisection.result import Bisection
from polycast.debug.distinct_calls import DistinctCall
from polycast.policy.plan import Plan, PlanLike, shown

from tests.support.properties import TIMES

SEEDS = range(20 * TIMES)
OPS = ("linear", "matmul", "conv2d", "bmm", "addmm", "scaled_dot_product_attention", "relu", "softmax")
BAD = {op: polycast.policy.category(op, "cpu") for op in OPS}
GOOD = polycast.Policy("fp32")
NONE = polycast.Policy()
LISTED = [op for op in OPS if BAD[op] != GOOD.category(op, "cpu")]


@cache
def rules(policy: polycast.Policy) -> dict[str, str]:
    return {rule.op: rule.category for rule in policy.by_overload() if rule.device == "cpu"}


def held(plan: Plan, call: DistinctCall) -> str:
    """Return the category of a call: that of the innermost module that has a rule, else of the process."""
    modules, name = plan.models.get(call.model, {}), call.module
    while call.op not in rules(modules.get(name, NONE)) and name:
        name = name.rpartition(".")[0]
    return {**BAD, **rules(plan.ops), **rules(modules.get(name, NONE))}[call.op]


class Fake:
    """A program that is bad if all calls of any culprit have the category that they have in "bad"."""

    def __init__(self, calls: list[DistinctCall], culprits: list[list[DistinctCall]], rate: float = 1.0) -> None:
        self.calls, self.culprits = calls, culprits
        self._draw, self._rate = random.Random(0), rate

    def __call__(self, plan: Plan, find_calls: bool) -> Run:
        is_bad = any(all(held(plan, call) == BAD[call.op] for call in culprit) for culprit in self.culprits)
        status = int(is_bad and self._draw.random() < self._rate)
        return Run(status, 0.0, "", self.calls if find_calls else None)


def drawn(seed: int) -> tuple[random.Random, list[DistinctCall], list[DistinctCall]]:
    """Return the calls of a program of modules within modules, and those that can be culprits."""
    draw = random.Random(seed)
    names = [""]
    for number in range(draw.randrange(1, 12)):
        names.append(f"{draw.choice(names)}.m{number}".lstrip("."))
    places = [("", ""), *((model, name) for model in ("Net", "Net2") for name in names)]
    calls = [DistinctCall(*place, op, "cpu") for place in places for op in OPS if draw.random() < 0.4]
    return draw, calls, [call for call in calls if call.op in LISTED]


def found_in(fake: Fake, repeat: int = 1, good: PlanLike = "fp32", bad: PlanLike = "built-in") -> Bisection:
    return Bisecting(fake, good, bad, repeat, None, {}, lambda _: None).run()


@pytest.mark.parametrize("sizes", [[1], [2], [3], [1, 1], [2, 1]], ids=str)
def test_hidden_culprits_are_found_at_their_modules(sizes: list[int]) -> None:
    for seed in SEEDS:
        draw, calls, able = drawn(seed)
        if len(able) < sum(sizes):
            continue
        chosen = draw.sample(able, sum(sizes))
        culprits = [[chosen.pop() for _ in range(size)] for size in sizes]
        fake = Fake(calls, culprits)
        found = found_in(fake)
        groups = [{(one.module, one.op) for one in found.culprits if one.group == number} for number in range(9)]
        assert sorted(map(sorted, filter(None, groups))) == sorted(
            sorted((shown(call.model, call.module), call.op) for call in culprit) for culprit in culprits
        )
        assert found.proved
        # No other call has another category than in "bad".
        given = [call for call in calls if held(found.plan, call) != BAD[call.op]]
        assert {*given} == {call for culprit in culprits for call in culprit}


def test_a_program_that_fails_one_run_in_three_needs_twelve() -> None:
    for seed in SEEDS:
        draw, calls, able = drawn(seed)
        if able:
            culprit = draw.choice(able)
            found = found_in(Fake(calls, [[culprit]], rate=1 / 3), repeat=24)
            assert [(one.module, one.op) for one in found.culprits] == [
                (shown(culprit.model, culprit.module), culprit.op)
            ]
