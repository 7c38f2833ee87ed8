"""State that is saved and loaded: torch.optim's, in its dtype, through the users' hooks."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.optimizers import OURS, SHAPES, THEIRS, make, parameters, same_bits, set_grads

F32, BF16 = torch.float32, torch.bfloat16


def train(optimizer: Any, params: list[Tensor], *numbers: int) -> None:
    for number in numbers:
        set_grads(params, number)
        optimizer.step()


@pytest.mark.parametrize("kind", ["SGD momentum", "SGD dampening", "Adam amsgrad", "AdamW"])
def test_a_state_dict_is_torchs(kind: str, real_device: str) -> None:
    """Except for the count of steps, which is on the device, as that of torch's fused optimizers."""

    def place(name: str, value: Tensor) -> Any:
        return "the count's" if name == "step" and real_device != "cpu" else value.device

    def description(library: dict[str, Any]) -> Any:
        params = parameters(*SHAPES, device=real_device)
        optimizer = make(library, kind, params)
        train(optimizer, params[:2], 0)
        state_dict = optimizer.state_dict()
        state = {
            key: {name: (value.shape, value.dtype, place(name, value)) for name, value in values.items()}
            for key, values in state_dict["state"].items()
        }
        groups = [{**group, "foreach": None, "fused": None} for group in state_dict["param_groups"]]
        return state_dict.keys(), state, groups

    assert description(OURS) == description(THEIRS)


@pytest.mark.parametrize("kind", ["SGD nesterov", "SGD dampening"])
def test_a_momentum_buffer_of_none_is_one_that_no_step_has_written(kind: str, real_device: str) -> None:
    (weight,), (other,) = parameters((3,), device=real_device), parameters((3,))
    optimizer, theirs = make(OURS, kind, [weight]), make(THEIRS, kind, [other])
    optimizer.load_state_dict({**optimizer.state_dict(), "state": {0: {"momentum_buffer": None}}})
    train(optimizer, [weight], 0)
    train(theirs, [other], 0)
    torch.testing.assert_close(weight.detach().cpu(), other.detach())


def moments(optimizer: Any) -> list[Tensor]:
    return [value for values in optimizer.state.values() for name, value in values.items() if name != "step"]


@pytest.mark.parametrize("kind", ["SGD momentum", "Adam amsgrad"])
def test_loaded_state_is_converted_with_one_warning(kind: str) -> None:
    """From then on it goes from one optimizer to the next in bits of its own, and a warning would be an error."""
    params = parameters((3,), (2, 2), dtype=BF16)
    saved = make(THEIRS, kind, params)
    train(saved, params, 0, 1)
    ours, other = (make(OURS, kind, params, state_dtype=dtype) for dtype in ("fp32", F32))
    seen: list[torch.dtype] = []
    ours.register_load_state_dict_post_hook(lambda it: seen.extend(tensor.dtype for tensor in moments(it)))
    text = r"^loaded state of torch.bfloat16 is converted to the state_dtype torch.float32$"
    with pytest.warns(UserWarning, match=text) as found:
        ours.load_state_dict(saved.state_dict())
    assert [warning.filename for warning in found] == [__file__]
    assert {*seen} == {F32}  # a hook after loading sees what is kept
    train(ours, params, 2, 3)
    assert {tensor.dtype for tensor in moments(ours)} == {F32}
    other.load_state_dict(ours.state_dict())
    for left, right in zip(moments(ours), moments(other), strict=True):
        assert same_bits(left, right)
        assert left.data_ptr() != right.data_ptr()


@pytest.mark.parametrize("state_dtype", [None, F32])
def test_what_hooks_make_of_the_state_is_loaded(state_dtype: torch.dtype | None) -> None:
    """One leaves a parameter out, the other changes an average."""

    def first(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"state": {0: state["state"][0]}, "param_groups": [{**state["param_groups"][0], "params": [0]}]}

    def sevens(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "state": {0: {**state["state"][0], "exp_avg": torch.full((3,), 7.0)}}}

    params = parameters((3,), (3,))
    saved = make(THEIRS, "AdamW", params)
    train(saved, params, 0)
    optimizer = make(OURS, "AdamW", params[:1], state_dtype=state_dtype)
    optimizer.register_load_state_dict_pre_hook(first)
    optimizer.register_load_state_dict_pre_hook(sevens)
    optimizer.load_state_dict(saved.state_dict())
    assert len(optimizer.state) == 1
    assert optimizer.state[params[0]]["exp_avg"].tolist() == [7.0] * 3


def test_state_that_belongs_to_no_parameter_is_kept() -> None:
    """Upstream's tests put such entries in by hooks; they are saved and loaded, and no step looks at them."""
    params = parameters((3,))
    optimizer: Any = make(OURS, "AdamW", params)
    optimizer.register_state_dict_pre_hook(lambda it: it.state.update(test=1))
    train(optimizer, params, 0)
    optimizer.load_state_dict(optimizer.state_dict())
    train(optimizer, params, 1)
    assert optimizer.state_dict()["state"]["test"] == optimizer.state["test"] == 1
