"""Planted faults are named, and advice avoids what was found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.probe import HAS_XLA, NO_XLA
from testing.properties import TIMES, examples
from tests.debug.faults import NETWORKS, Network, check_advice, check_compare, check_watch

pytestmark = pytest.mark.usefixtures("one_thread")


@given(data=st.data())
@examples(3)
def test_compare_names_the_op_that_is_one_percent_wrong(data: st.DataObject) -> None:
    check_compare(data, "cpu")


@given(data=st.data())
@examples(6)
def test_watch_names_the_op_that_makes_an_infinity_or_a_nan(data: st.DataObject) -> None:
    check_watch(data, "cpu")


@pytest.mark.skipif(not HAS_XLA, reason=NO_XLA)
@pytest.mark.skipif(TIMES == 1, reason="each op's check is compiled, which takes minutes; TIMES=10 runs it")
@given(data=st.data())
@examples(1)
def test_on_xla_watch_names_the_op_that_makes_an_infinity_or_a_nan(data: st.DataObject) -> None:
    check_watch(data, "xla")


@given(network=NETWORKS)
@examples(6)
def test_advice_for_branches_beside_a_float32_residual_avoids_what_was_found(network: Network) -> None:
    check_advice(network)
