"""Which loss curves are those of float32."""

from math import inf, nan

import pytest
from polycast.debug.tuning.losses import Tolerance

# Of two seeds: final losses 1 and 3, whose standard deviation is 1.41.
REFERENCE = {0: (2.0, 1.0), 1: (4.0, 3.0)}


@pytest.mark.parametrize(
    ("curves", "complaint"),
    [
        ({0: (2.0, 1.0), 1: (4.0, 3.0)}, ""),
        ({0: (2.0, 2.0), 1: (4.0, 4.0)}, ""),
        ({0: (2.0, 3.0), 1: (4.0, 5.0)}, "the final loss is 2 higher than in float32, and 1.41 is allowed"),
        ({0: (2.0, 0.0), 1: (4.0, 0.0)}, ""),  # a lower loss is never too low
        ({0: (6.0, 1.0), 1: (8.0, 3.0)}, "the mean of the losses is 2 higher than in float32, and 1.41 is allowed"),
        ({0: (2.0, 2.9)}, ""),  # of one seed alone, sqrt(2) times as much
        ({0: (2.0, 3.1)}, "the final loss is 2.1 higher than in float32, and 2 is allowed"),
        ({0: (2.0, 1.0), 1: (4.0, nan)}, "the loss of seed 1 is nan at step 1"),
        ({0: (inf,)}, "the loss of seed 0 is inf at step 0"),
        ({0: (2.0,)}, "seed 0 has 1 losses, and 2 in float32"),
        ({}, ""),
    ],
)
def test_the_losses_of_a_plan(curves: dict[int, tuple[float, ...]], complaint: str) -> None:
    assert Tolerance(REFERENCE, 1.0).complaint(curves) == complaint


def test_one_seed_has_no_spread_so_one_percent_is_allowed() -> None:
    tolerance = Tolerance({0: (1.0,) * 10}, 1.0)
    assert tolerance.complaint({0: (1.005,) * 10}) == ""
    assert tolerance.complaint({0: (1.02,) * 10}) == (
        "the final loss is 0.02 higher than in float32, and 0.01 is allowed"
    )


def test_a_check_replaces_the_comparison_but_not_that_losses_are_finite() -> None:
    tolerance = Tolerance(REFERENCE, 1.0, lambda losses, reference: losses[-1] <= 2 * reference[-1])
    assert tolerance.complaint({0: (9.0, 2.0), 1: (9.0, 6.0)}) == ""
    assert tolerance.complaint({0: (9.0, 2.0), 1: (9.0, 7.0)}) == "the check returns false for seed 1"
    assert tolerance.complaint({0: (9.0, -inf)}) == "the loss of seed 0 is -inf at step 1"
