"""What was compiled is let go beside a progress bar, or torch compiles a function eight times only."""

import pytest
from polycast.scope import compiled_code


def test_the_monitor_of_a_progress_bar_is_no_thread_that_runs_compiled_code() -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    before = compiled_code._threads()
    with tqdm(total=1) as bar:
        assert bar.monitor.ident not in compiled_code._threads() <= before
