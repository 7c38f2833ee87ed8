"""Trainings that are killed go on as if they had not been; TIMES=10 kills ten times as often."""

from pathlib import Path

import pytest
import torch

from testing.properties import TIMES
from tests.workflows import survival


def test_a_training_that_is_killed_twice_resumes_bit_for_bit(tmp_path: Path) -> None:
    assert survival.survive(2 * TIMES, tmp_path).differences == []


@pytest.mark.filterwarnings("ignore:Seems like `optimizer.step:UserWarning")
def test_a_state_that_is_lost_is_found() -> None:
    """Of each part, and of the random numbers: what is compared would show it."""
    training = survival.Training(steps=20)
    for _ in range(10):
        training.step()
    state, fresh = training.state(), survival.Training(steps=20).state()
    assert survival.differences(state, state) == []
    for index in range(len(training.parts())):
        lost = {**state, "parts": [*state["parts"]]}
        lost["parts"][index] = fresh["parts"][index]
        assert all(text.startswith(f"state['parts'][{index}]") for text in survival.differences(lost, state))
        assert survival.differences(lost, state)
    assert survival.differences({**state, "random": torch.get_rng_state() + 1}, state) == ["state['random']"]


def test_a_training_that_loses_one_of_two_workers_goes_on_bit_for_bit(tmp_path: Path) -> None:
    """Under torchrun's agent, which starts both again; they begin where they last saved."""
    assert survival.survive_elastic(tmp_path, steps=6) == (1, 0, [])
