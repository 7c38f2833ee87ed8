"""The settings of property tests: ``make test`` draws fixed examples, and ``TIMES=100`` draws 100x as many."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypothesis import settings

TIMES = int(os.environ.get("TIMES", "1"))


def examples(count: int, *, shrinks: bool = True) -> "settings":
    """Return the settings of a property test with this many examples in ``make test``.

    With ``TIMES=100`` in the environment, the test runs 100 times as many examples, and new ones in each run.
    Hypothesis shrinks a failing example; pass ``shrinks=False`` if the shrinking takes minutes.
    """
    from hypothesis import HealthCheck, Phase, settings  # Other tests run without Hypothesis.

    left_out = {Phase.explain} if shrinks else {Phase.explain, Phase.shrink}
    return settings(
        max_examples=count * TIMES,
        derandomize=TIMES == 1,
        database=None,
        deadline=None,
        phases=[phase for phase in Phase if phase not in left_out],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
