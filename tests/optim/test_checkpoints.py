"""State that is saved and loaded: torch.optim's, in its dtype, through the users' hooks."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.optimizers import (
    FOR_LOOP,
    OURS,
    SHAPES,
    THEIRS,
    clones,
    make,
    on_host,
    parameters,
    same_bits,
    set_grads,
)

KINDS = pytest.mark.parametrize("kind", ["SGD momentum", "SGD dampening", "Adam amsgrad", "AdamW"])
BUFFERS = pytest.mark.parametrize("kind", ["SGD nesterov", "SGD dampening"])


def train(optimizer: Any, params: list[Tensor], first: int = 0, steps: int = 5) -> None:
    for number in range(first, first + steps):
        set_grads(params, number)
        optimizer.step()


def switched(
    library: dict[str, Any], kind: str, params: list[Tensor], optimizer: Any, device: str | None = None
) -> tuple[Any, list[Tensor]]:
    """Return the other library's optimizer with the same state, and copies of the parameters, perhaps on a device."""
    others = clones(params, device)
    other = make(library, kind, others)
    other.load_state_dict(deepcopy(optimizer.state_dict()))
    return other, others


@KINDS
def test_training_that_moves_between_devices_and_libraries_is_training_on_the_host(kind: str, real_device: str) -> None:
    """Ours on the device, torch.optim there, ours on the host, ours on the device: a few steps each."""
    straight, params = parameters(*SHAPES), parameters(*SHAPES, device=real_device)
    theirs, optimizer = make(THEIRS, kind, straight), make(OURS, kind, params)
    train(theirs, straight, steps=8)
    train(optimizer, params, steps=2)
    for first, (library, device) in zip(
        (2, 4, 6), ((THEIRS, real_device), (OURS, "cpu"), (OURS, real_device)), strict=True
    ):
        optimizer, params = switched(library, kind, params, optimizer, device)
        train(optimizer, params, first, 2)
        state = [value for values in optimizer.state.values() for value in values.values() if value is not None]
        assert {value.device.type for value in state if value.dim()} <= {device}
    torch.testing.assert_close(on_host(params), on_host(straight), rtol=1e-5, atol=1e-6)


@KINDS
def test_a_state_dict_is_torchs(kind: str, real_device: str) -> None:
    """But for the count of steps, which is on the device, as that of torch's fused optimizers."""

    def place(name: str, value: Tensor) -> Any:
        return "the count's" if name == "step" and real_device != "cpu" else value.device

    def description(library: dict[str, Any]) -> Any:
        params = parameters(*SHAPES, device=real_device)
        optimizer = make(library, kind, params)
        set_grads(params[:2], 0)
        optimizer.step()
        state_dict = optimizer.state_dict()
        state = {
            key: {name: (value.shape, value.dtype, place(name, value)) for name, value in values.items()}
            for key, values in state_dict["state"].items()
        }
        groups = [{**group, "foreach": None, "fused": None} for group in state_dict["param_groups"]]
        return state_dict.keys(), state, groups

    assert description(OURS) == description(THEIRS)


@BUFFERS
def test_a_momentum_buffer_of_none_is_one_that_no_step_has_written(kind: str, real_device: str) -> None:
    (weight,), (other,) = parameters((3,), device=real_device), parameters((3,))
    optimizer, theirs = make(OURS, kind, [weight]), make(THEIRS, kind, [other])
    optimizer.load_state_dict({**optimizer.state_dict(), "state": {0: {"momentum_buffer": None}}})
    train(optimizer, [weight], 1)
    train(theirs, [other], 1)
    torch.testing.assert_close(weight.detach().cpu(), other.detach())


def test_dampening_that_is_switched_after_a_skipped_step_leaves_the_first_gradient_whole() -> None:
    params, others = parameters((3,)), parameters((3,))
    ours: Any = OURS["SGD"](params, lr=0.1, momentum=0.9, dampening=0.5)
    theirs = THEIRS["SGD"](others, lr=0.1, momentum=0.9, dampening=0.5, **FOR_LOOP)
    set_grads(params, 0)
    ours.step(found_inf=torch.tensor(1.0))
    for number, dampening in enumerate((0.0, 0.5, 0.5, 0.0, 0.5)):
        for optimizer, weights in ((ours, params), (theirs, others)):
            optimizer.param_groups[0]["dampening"] = dampening
            set_grads(weights, number)
            optimizer.step()
        torch.testing.assert_close(params, others)


def moments(optimizer: Any) -> list[Tensor]:
    return [value for values in optimizer.state.values() for name, value in values.items() if name != "step"]


TWO = pytest.mark.parametrize("kind", ["SGD momentum", "Adam amsgrad"])


@TWO
def test_loaded_state_is_converted_with_one_warning(kind: str) -> None:
    params = parameters((3,), (2, 2), dtype=torch.bfloat16)
    saved = make(THEIRS, kind, params)
    train(saved, params, 0, 2)
    ours: Any = make(OURS, kind, params, state_dtype=torch.float32)
    seen: list[torch.dtype] = []
    ours.register_load_state_dict_post_hook(lambda it: seen.extend(tensor.dtype for tensor in moments(it)))
    text = r"^loaded state of torch.bfloat16 is converted to the state_dtype torch.float32$"
    with pytest.warns(UserWarning, match=text) as found:
        ours.load_state_dict(saved.state_dict())
    assert [warning.filename for warning in found] == [__file__]
    assert {*seen} == {torch.float32}  # a hook after loading sees what is kept
    train(ours, params, 3, 2)
    assert {tensor.dtype for tensor in moments(ours)} == {torch.float32}


@TWO
def test_float32_state_of_low_parameters_survives_a_checkpoint(kind: str) -> None:
    """In bits of its own, and without a warning, which would be an error."""
    params = parameters((3,), (2, 2), dtype=torch.bfloat16)
    ours, other = (make(OURS, kind, params, state_dtype=torch.float32) for _ in range(2))
    train(ours, params, 0, 2)
    other.load_state_dict(ours.state_dict())
    for left, right in zip(moments(ours), moments(other), strict=True):
        assert same_bits(left, right)
        assert left.data_ptr() != right.data_ptr()


@pytest.mark.parametrize("state_dtype", [None, torch.float32])
def test_what_hooks_make_of_the_state_is_loaded(state_dtype: torch.dtype | None) -> None:
    """One leaves a parameter out, the other changes an average."""

    def first(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"state": {0: state["state"][0]}, "param_groups": [{**state["param_groups"][0], "params": [0]}]}

    def sevens(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "state": {0: {**state["state"][0], "exp_avg": torch.full((3,), 7.0)}}}

    params = parameters((3,), (3,))
    saved = make(THEIRS, "AdamW", params)
    train(saved, params, steps=1)
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
    train(optimizer, params, steps=1)
    state_dict = optimizer.state_dict()
    assert state_dict["state"]["test"] == 1
    optimizer.load_state_dict(state_dict)
    train(optimizer, params, steps=1)
    assert optimizer.state["test"] == 1


@pytest.mark.parametrize(("name", "choice"), [("SGD", "foreach"), ("AdamW", "fused")])
def test_the_choice_of_an_implementation_travels_with_the_state_both_ways(name: str, choice: str) -> None:
    """Torch's steps, then ours, then torch's are torch's alone, and the groups say what they said."""
    options = {"lr": 0.1, choice: True, **({"momentum": 0.9} if name == "SGD" else {})}
    params, others = (parameters((3,), (2, 2)) for _ in range(2))
    straight, there = (THEIRS[name](weights, **options) for weights in (params, others))
    train(straight, params, steps=6)
    train(there, others, steps=2)
    for library, first in ((OURS, 2), (THEIRS, 4)):
        state = deepcopy(there.state_dict())
        there = library[name](others, lr=0.1)
        there.load_state_dict(state)
        assert there.param_groups[0][choice] is True
        train(there, others, first, 2)
    torch.testing.assert_close(others, params)
