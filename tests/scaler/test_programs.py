"""Programs of scaler calls in any order do what they do with torch's scaler."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.properties import examples
from tests.scaler.programs import CLOSE, KINDS, Call, compare, programs

EACH_KIND = st.sampled_from(list(KINDS))


@pytest.mark.usefixtures("one_thread")
@given(kinds=st.tuples(EACH_KIND, EACH_KIND), precision=st.sampled_from(list(CLOSE)), program=programs())
@examples(150)
def test_programs_do_what_torchs_scaler_does(kinds: tuple[str, str], precision: str, program: list[Call]) -> None:
    compare(kinds, precision, program)
