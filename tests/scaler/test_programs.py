"""Programs of scaler calls in any order do what they do with torch's scaler."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaler.programs import Call, compare, kinds_on, precisions_on, programs
from tests.support.properties import examples


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:each step of .* waits")
def test_programs_do_what_torchs_scaler_does(real_device: str) -> None:
    kind, precision = st.sampled_from(kinds_on(real_device)), st.sampled_from(precisions_on(real_device))

    @given(kinds=st.tuples(kind, kind), precision=precision, program=programs())
    # XLA compiles each call.
    @examples({"cpu": 150, "xla": 4}.get(real_device, 50), shrinks=real_device != "xla")
    def run(kinds: tuple[str, str], precision: str, program: list[Call]) -> None:
        compare(kinds, precision, program, real_device)

    run()
