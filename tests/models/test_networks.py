"""The networks on which bisect and tune are tried: they train, the broken ones fail as they should, the planted too."""

import polycast
import pytest
import torch
from polycast.backends import HOST, xla
from polycast.policy.plan import Plan

from tests.support.devices import lower_precision, seed
from tests.support.networks.broken import BROKEN
from tests.support.networks.planted import PLANTED, Planted
from tests.support.networks.training import Training
from tests.support.networks.working import WORKING
from tests.support.properties import TIMES

STEPS = 8

pytestmark = pytest.mark.usefixtures("one_thread")


def losses(training: Training, device: str) -> list[float]:
    seed(device)
    step = training.make()
    return torch.stack([step(batch) for batch in training.batches]).tolist()


@pytest.mark.parametrize("name", WORKING)
def test_a_network_learns_on_every_device(real_device: str, name: str) -> None:
    if real_device == xla.TYPE and name != "digits" and TIMES == 1:
        pytest.skip("XLA compiles it for 5 to 15 seconds: TIMES=10 runs it")
    curve = losses(WORKING[name](real_device, lower_precision(real_device)[0], STEPS), real_device)
    assert max(curve[-2:]) < 0.95 * curve[0], curve


@pytest.mark.parametrize("name", WORKING)
def test_a_network_draws_the_same_each_time(name: str) -> None:
    first, second = (losses(WORKING[name](HOST, None, 2), HOST) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_network_learns_in_float32_alone(name: str) -> None:
    exact, autocast = losses(BROKEN[name](HOST, None), HOST), losses(BROKEN[name](HOST), HOST)
    assert exact[-1] < 0.4 * exact[0] and autocast[-1] > 1.5 * exact[-1], (exact[-1], autocast[-1])


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
