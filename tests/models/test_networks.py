"""The models with planted culprits, on which bisect is tried, fail as they should."""

import polycast
import pytest
from polycast.backends import HOST
from polycast.policy.plan import Plan

from tests.support.networks.planted import PLANTED, Planted

pytestmark = pytest.mark.usefixtures("one_thread")


def plan(planted: Planted, culprits: set[tuple[str, str]], *, bad: bool) -> Plan:
    """Return the plan in which the culprits are bad and all else is float32, or the other way around."""
    float32 = dict.fromkeys([*polycast.policy.ops(HOST), *planted.bad], "fp32")
    everywhere = dict(float32) if bad else dict(planted.bad)
    models: dict[str, dict[str, dict[str, str]]] = {}
    for op, place in culprits:
        model, _, module = place.partition(".")
        rules = models.setdefault(model, {}).setdefault(module, {}) if place else everywhere
        rules[op] = (planted.bad.get(op) or polycast.policy.category(op, HOST)) if bad else "fp32"
    held = {name: {key: polycast.Policy(rules) for key, rules in keys.items()} for name, keys in models.items()}
    return Plan(polycast.Policy(everywhere), held)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_check_fails_by_its_culprits_alone(name: str) -> None:
    planted = PLANTED[name]
    check, runs = planted.check(seed=0), 1 if planted.fails == 1 else 30
    every = set().union(*planted.culprits)

    def failed(rules: Plan) -> float:
        with polycast.use(rules):
            return sum(not check() for _ in range(runs)) / runs

    assert failed(plan(planted, set(), bad=True)) == 0  # all in float32
    assert failed(plan(planted, set(), bad=False)) == pytest.approx(planted.fails, abs=0.2)
    assert failed(plan(planted, every, bad=False)) == 0
    for culprits in planted.culprits:
        assert failed(plan(planted, culprits, bad=True)) == pytest.approx(planted.fails, abs=0.2)
        for one in culprits if len(culprits) > 1 else ():
            assert failed(plan(planted, culprits - {one}, bad=True)) == 0
