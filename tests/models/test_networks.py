"""The models with planted culprits, on which bisect is tried, fail as they should."""

import polycast
import pytest
from polycast.backends import HOST
from polycast.debug.bisection.switches import Trial

from tests.support.networks.planted import PLANTED, Planted

pytestmark = pytest.mark.usefixtures("one_thread")


def rules(planted: Planted, culprits: set[tuple[str, str]], *, bad: bool) -> Trial:
    """Return rules by which the culprits are bad and all else is float32, or the other way around."""
    float32 = dict.fromkeys([*polycast.policy.ops(HOST), *planted.bad], "fp32")
    everywhere = dict(float32) if bad else dict(planted.bad)
    modules: dict[str, dict[str, str]] = {}
    for op, module in culprits:
        held = modules.setdefault(module, {}) if module else everywhere
        held[op] = (planted.bad.get(op) or polycast.policy.category(op, HOST)) if bad else "fp32"
    return Trial(polycast.Policy(everywhere), {name: polycast.Policy(held) for name, held in modules.items()})


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_check_fails_by_its_culprits_alone(name: str) -> None:
    planted = PLANTED[name]
    (model, check), runs = planted.make(seed=0), 1 if planted.fails == 1 else 30
    every = set().union(*planted.culprits)

    def failed(trial: Trial) -> float:
        with polycast.use(trial.policy), polycast.assign(model, trial.modules):
            return sum(not check() for _ in range(runs)) / runs

    assert failed(rules(planted, set(), bad=True)) == 0  # all in float32
    assert failed(rules(planted, set(), bad=False)) == pytest.approx(planted.fails, abs=0.2)
    assert failed(rules(planted, every, bad=False)) == 0
    for culprits in planted.culprits:
        assert failed(rules(planted, culprits, bad=True)) == pytest.approx(planted.fails, abs=0.2)
        for one in culprits if len(culprits) > 1 else ():
            assert failed(rules(planted, culprits - {one}, bad=True)) == 0
