"""bisect finds the culprits that are planted in small models: one rule, pairs, and those that fail one run in three."""

import polycast
import pytest

from tests.support.networks.planted import PLANTED
from tests.support.properties import TIMES

pytestmark = pytest.mark.usefixtures("one_thread")
FAST = ("mlp", "distances", "sum_of_errors", "outliers")


@pytest.mark.parametrize("name", PLANTED if TIMES >= 10 else FAST)
def test_bisect_finds_planted_culprits(name: str) -> None:
    """The others take seconds: TIMES=10 searches for them, too."""
    planted = PLANTED[name]
    bad = dict(planted.bad) or "built-in"
    model, check = planted.make(seed=0)
    found = polycast.debug.bisect(check, bad=bad, repeat=planted.repeat, model=model)
    assert planted.named(found) == len(planted.culprits), str(found)
