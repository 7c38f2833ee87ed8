"""tune mends networks that do not learn under autocast, without being told what is broken."""

import polycast
import pytest
import torch
from polycast.backends import HOST
from polycast.debug.tuning import proof
from polycast.policy.plan import Plan

from tests.support.networks.broken import BROKEN

DTYPES = {"overflow": torch.float16, "large mean": torch.bfloat16}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", BROKEN)
def test_tune_mends_a_broken_network(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "ROUND_SECONDS", 0.01)  # of the race, which does not matter here
    training = BROKEN[name](HOST, DTYPES[name], 15)
    tuned = polycast.debug.tune(training.make, training.batches, dtype=DTYPES[name], seeds=2)
    built_in = tuned.trials[1]
    assert built_in.complaint and not tuned.best.complaint
    assert tuned.plan != built_in.plan
    mended = [trial for trial in tuned.trials[2:] if not trial.complaint and trial.plan != Plan("fp32")]
    assert mended, tuned.table()
