"""Trainings that are killed go on as if they had not been; TIMES=10 kills ten times as often."""

from pathlib import Path

import pytest

from tests.support.devices import RESIZES
from tests.support.properties import TIMES
from tests.workflows import survival

pytestmark = RESIZES


@pytest.fixture
def device(real_device: str) -> str:
    if real_device == "xla" and TIMES == 1:
        pytest.skip("the training is compiled on XLA, which takes minutes; TIMES=10 runs it")
    return real_device


def test_a_training_that_is_killed_twice_resumes_bit_for_bit(tmp_path: Path, device: str) -> None:
    assert survival.survive(2 * TIMES, tmp_path, device).differences == []


@pytest.mark.filterwarnings("ignore:Seems like `optimizer.step:UserWarning")
def test_a_state_that_is_lost_is_found(device: str) -> None:
    """Of each part, and of the random numbers: what is compared would show it."""
    training = survival.Training(20, device)
    for _ in range(10):
        training.step()
    state, fresh = training.state(), survival.Training(20, device).state()
    assert survival.differences(state, state) == []
    for index in range(len(training.parts())):
        lost = {**state, "parts": [*state["parts"]]}
        lost["parts"][index] = fresh["parts"][index]
        assert all(text.startswith(f"state['parts'][{index}]") for text in survival.differences(lost, state))
        assert survival.differences(lost, state)
    missing = survival.differences({**state, "random": fresh["random"]}, state)
    assert all(text.startswith("state['random'][") for text in missing)
    assert f"state['random'][{ {'cpu': 0, 'xla': 1}.get(device, 2) }]" in missing


def test_a_training_that_loses_one_of_two_workers_goes_on_bit_for_bit(tmp_path: Path) -> None:
    """Under torchrun's agent, which starts both again; they begin where they last saved."""
    assert survival.survive_elastic(tmp_path, steps=6) == (1, 0, [])
