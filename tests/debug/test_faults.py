"""Planted faults are named, and advice avoids what was found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.debug.faults import NETWORKS, Network, check_advice, check_compare, check_watch
from tests.support.properties import TIMES, examples

pytestmark = pytest.mark.usefixtures("one_thread")


@given(data=st.data())
@examples(3)
def test_compare_names_the_op_that_is_one_percent_wrong(real_device: str, data: st.DataObject) -> None:
    if real_device == "xla":
        pytest.skip("XLA's own bfloat16 is off by as much")
    check_compare(data, real_device)


@given(data=st.data())
@examples(6)
def test_watch_names_the_op_that_makes_an_infinity_or_a_nan(real_device: str, data: st.DataObject) -> None:
    if real_device == "xla" and TIMES == 1:
        pytest.skip("each op's check is compiled, which takes minutes; TIMES=10 runs it")
    check_watch(data, real_device)


@given(network=NETWORKS)
@examples(6)
def test_advice_for_branches_beside_a_float32_residual_avoids_what_was_found(network: Network) -> None:
    check_advice(network)
