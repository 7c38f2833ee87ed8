"""A sample of the ops under policies made at run time, on every device; `python -m tools.run_time_casts` runs all."""

import random

from tools.run_time_casts import base_trials, differences, outside_trials


def test_ops_of_the_base_arrive_in_the_type_of_their_rule() -> None:
    trials = random.Random(15).sample(base_trials(), 300)
    results = list(differences(trials))
    assert len(results) > 100
    assert [text for text in results if text is not None] == []


def test_ops_outside_of_the_base_arrive_in_the_type_of_their_rule() -> None:
    results = list(differences(outside_trials(24, seed=15)))
    assert len(results) > 40
    assert [text for text in results if text is not None] == []
