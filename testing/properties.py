"""How many examples a property is tested with: the same ones at each `make test`, more of them by TIMES=100."""

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("TIMES", "1"))


def examples(count: int) -> settings:
    """Return the settings of a property that `make test` gives this many examples, TIMES as many where that is set.

    Those of TIMES=1 are seeded, further ones are drawn anew at each run.
    """
    return settings(
        max_examples=count * TIMES,
        derandomize=TIMES == 1,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
