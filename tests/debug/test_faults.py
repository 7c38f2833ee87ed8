"""Planted faults are named: random_faults.py plants many more."""

from tools.random_faults import compared, watched


def test_compare_names_the_op_that_is_one_percent_wrong() -> None:
    assert list(compared(range(3), "cpu")) == [None] * 3


def test_watch_names_the_op_that_makes_an_infinity_or_a_nan() -> None:
    assert list(watched(range(6), "cpu")) == [None] * 6
