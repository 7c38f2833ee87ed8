"""The settings of property tests: `make test` draws the same examples each time, TIMES=100 draws 100 times as many."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypothesis import settings

TIMES = int(os.environ.get("TIMES", "1"))


def examples(count: int, *, shrinks: bool = True) -> "settings":
    """Return the settings of a property test with this many examples in `make test`.

    With TIMES=100 in the environment the test has 100 times as many. Only the examples of `make test` are the same in
    each run. A failing example is shrunk first; disable shrinking if it takes minutes.
    """
    from hypothesis import HealthCheck, Phase, settings  # tests without properties run if hypothesis is not installed

    left_out = {Phase.explain} if shrinks else {Phase.explain, Phase.shrink}
    return settings(
        max_examples=count * TIMES,
        derandomize=TIMES == 1,
        database=None,
        deadline=None,
        phases=[phase for phase in Phase if phase not in left_out],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
