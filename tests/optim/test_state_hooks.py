"""Hooks on state_dict and load_state_dict: they see and change what they would of torch.optim's."""

from typing import Any

import pytest
import torch

from tests.optimizers import KINDS, OURS, THEIRS, make, parameters, set_grads

LIBRARIES = {"ours": OURS, "torch": THEIRS}
STATE_DTYPES = [None, torch.float32]


def saved(kind: str, count: int = 1) -> dict[str, Any]:
    """Return the state of torch's optimizer after a step over so many parameters."""
    params = parameters(*[(3,)] * count)
    set_grads(params, 0)
    optimizer = make(THEIRS, kind, params)
    optimizer.step()
    return optimizer.state_dict()


def average(kind: str) -> str:
    return "momentum_buffer" if kind.startswith("SGD") else "exp_avg"


@pytest.mark.parametrize("state_dtype", STATE_DTYPES)
@pytest.mark.parametrize("kind", ["SGD momentum", "AdamW"])
def test_what_a_hook_makes_of_the_state_is_loaded(kind: str, state_dtype: torch.dtype | None) -> None:
    def sevens(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "state": {0: {**state["state"][0], average(kind): torch.full((3,), 7.0)}}}

    params = parameters((3,))
    optimizer = make(OURS, kind, params, state_dtype=state_dtype)
    optimizer.register_load_state_dict_pre_hook(sevens)
    optimizer.load_state_dict(saved(kind))
    assert optimizer.state[params[0]][average(kind)].tolist() == [7.0] * 3


@pytest.mark.parametrize("state_dtype", STATE_DTYPES)
@pytest.mark.parametrize("kind", ["SGD momentum", "AdamW"])
def test_a_hook_can_leave_parameters_out(kind: str, state_dtype: torch.dtype | None) -> None:
    def first(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"state": {0: state["state"][0]}, "param_groups": [{**state["param_groups"][0], "params": [0]}]}

    optimizer = make(OURS, kind, parameters((3,)), state_dtype=state_dtype)
    optimizer.register_load_state_dict_pre_hook(first)
    optimizer.load_state_dict(saved(kind, 2))
    assert len(optimizer.state) == 1


@pytest.mark.parametrize("kind", ["SGD momentum", "AdamW"])
def test_a_hook_after_loading_sees_the_types_that_are_kept(kind: str) -> None:
    seen = []
    params = parameters((3,), dtype=torch.bfloat16)
    optimizer = make(OURS, kind, params, state_dtype=torch.float32)
    optimizer.register_load_state_dict_post_hook(
        lambda optimizer: seen.append(optimizer.state[params[0]][average(kind)].dtype)
    )
    optimizer.load_state_dict(saved(kind))
    assert seen == [torch.float32]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_hook_on_saving_sees_torchs_state(kind: str, library: str) -> None:
    params = parameters((3,))
    optimizer = make(LIBRARIES[library], kind, params)
    optimizer.register_state_dict_post_hook(lambda _, state: {"wrapped": state})
    set_grads(params, 0)
    optimizer.step()
    (content,) = optimizer.state_dict().values()
    assert content["state"].keys() == saved(kind)["state"].keys()
    assert [values.keys() for values in content["state"].values()] == [
        values.keys() for values in saved(kind)["state"].values()
    ]
