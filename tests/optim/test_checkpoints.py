"""State is torch.optim's: it travels there and back, and training goes on."""

import warnings
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.optimizers import KINDS, OURS, THEIRS, clones, make, parameters, same_bits, set_grads

SHAPES = ((7,), (3, 5), ())
STEPS = 10


def train(optimizer: Any, params: list[Tensor], first: int, steps: int = STEPS) -> None:
    for number in range(first, first + steps):
        set_grads(params, number)
        optimizer.step()


def switched(library: dict[str, Any], kind: str, params: list[Tensor], optimizer: Any) -> tuple[Any, list[Tensor]]:
    """Return the other library's optimizer with the same state, and copies of the parameters."""
    others = clones(params)
    other = make(library, kind, others)
    other.load_state_dict(deepcopy(optimizer.state_dict()))
    return other, others


@pytest.mark.parametrize("steps", [0, 1, STEPS])
@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back_without_a_step(kind: str, steps: int) -> None:
    params = parameters(*SHAPES)
    theirs = make(THEIRS, kind, params)
    train(theirs, params, 0, steps)
    ours, others = switched(OURS, kind, params, theirs)
    back, returned = switched(THEIRS, kind, others, ours)
    train(theirs, params, STEPS)
    train(back, returned, STEPS)
    for left, right in zip(params, returned, strict=True):
        assert same_bits(left, right)


@pytest.mark.parametrize("steps", [1, STEPS])
@pytest.mark.parametrize(("first", "second"), [(THEIRS, OURS), (OURS, THEIRS)], ids=["to ours", "to torch's"])
@pytest.mark.parametrize("kind", KINDS)
def test_switching_for_good(kind: str, first: dict[str, Any], second: dict[str, Any], steps: int) -> None:
    params, straight = parameters(*SHAPES), parameters(*SHAPES)
    before, wanted = make(first, kind, params), make(THEIRS, kind, straight)
    train(before, params, 0, steps)
    train(wanted, straight, 0, steps + STEPS)
    after, others = switched(second, kind, params, before)
    train(after, others, steps)
    largest = max(param.abs().max().item() for param in straight)
    for left, right in zip(others, straight, strict=True):
        assert (left - right).abs().max().item() <= 1e-6 * largest


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_dict_is_torchs(kind: str) -> None:
    def description(library: dict[str, Any]) -> Any:
        params = parameters(*SHAPES)
        optimizer = make(library, kind, params)
        set_grads(params[:2], 0)
        optimizer.step()
        state_dict = optimizer.state_dict()
        state = {
            key: {name: (value.shape, value.dtype, value.device) for name, value in values.items()}
            for key, values in state_dict["state"].items()
            if {name for name, value in values.items() if value is not None}
        }
        groups = [{**group, "foreach": None, "fused": None} for group in state_dict["param_groups"]]
        return state_dict.keys(), state, groups

    assert description(OURS) == description(THEIRS)


def test_dampening_with_a_skipped_first_step_is_saved_as_no_step() -> None:
    (weight,) = parameters((3,))
    optimizer: Any = make(OURS, "SGD dampening", [weight])
    set_grads([weight], 0)
    optimizer.step(found_inf=torch.tensor(1.0))
    assert not any(optimizer.state_dict()["state"].values())
    other, others = switched(THEIRS, "SGD dampening", [weight], optimizer)
    theirs = make(THEIRS, "SGD dampening", straight := clones([weight]))
    train(other, others, 1)
    train(theirs, straight, 1)
    assert same_bits(others[0], straight[0])


@pytest.mark.parametrize("kind", ["Adam", "Adam amsgrad", "AdamW"])
def test_adam_keeps_no_state_in_float16(kind: str) -> None:
    half = parameters((3,), dtype=torch.float16)
    name = KINDS[kind][0]
    text = (
        rf"syncfree.{name} cannot keep the state of a parameter of \(3,\) in float16, which does not hold the squares "
        "of its gradients; pass state_dtype=torch.float32"
    )
    with pytest.raises(TypeError, match=text):
        make(OURS, kind, half)
    with pytest.raises(TypeError, match=text):
        make(OURS, kind, parameters((3,)), state_dtype=torch.float16)
    optimizer = make(OURS, kind, parameters((3,)))
    with pytest.raises(TypeError, match=text):
        optimizer.add_param_group({"params": half})
    assert len(optimizer.param_groups) == 1
    assert make(OURS, kind, half, state_dtype=torch.float32).param_groups[0]["params"][0] is half[0]


@pytest.mark.parametrize("state_dtype", ["float32", torch.int32, torch.complex64])
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_a_state_dtype_is_a_floating_point_type(kind: str, state_dtype: object) -> None:
    with pytest.raises(TypeError, match=r"state_dtype is .*; it takes torch.float32, float64, bfloat16, float16"):
        make(OURS, kind, parameters((3,)), state_dtype=state_dtype)


STATEFUL = [kind for kind in KINDS if kind != "SGD"]


def moments(optimizer: Any) -> list[Tensor]:
    scalars = ("step", "momentum_started")
    return [value for values in optimizer.state.values() for name, value in values.items() if name not in scalars]


@pytest.mark.parametrize("kind", STATEFUL)
def test_loaded_state_is_converted_with_one_warning(kind: str) -> None:
    params = parameters((3,), (2, 2), dtype=torch.bfloat16)
    saved = make(THEIRS, kind, params)
    train(saved, params, 0, 2)
    ours: Any = make(OURS, kind, params, state_dtype=torch.float32)
    text = r"^loaded state of torch.bfloat16 is converted to the state_dtype torch.float32$"
    with pytest.warns(UserWarning, match=text) as found:
        ours.load_state_dict(saved.state_dict())
    assert [warning.filename for warning in found] == [__file__]
    train(ours, params, 3, 2)
    assert {tensor.dtype for tensor in moments(ours)} == {torch.float32}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", STATEFUL)
def test_float32_state_of_low_parameters_survives_a_checkpoint(kind: str, dtype: torch.dtype) -> None:
    params = parameters((3,), (2, 2), dtype=dtype)
    ours = make(OURS, kind, params, state_dtype=torch.float32)
    train(ours, params, 0, 2)
    others = clones(params)
    other = make(OURS, kind, others, state_dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.load_state_dict(deepcopy(ours.state_dict()))
        for left, right in zip(moments(ours), moments(other), strict=True):
            assert same_bits(left, right)
            assert left.data_ptr() != right.data_ptr()
        train(ours, params, 2, 3)
        train(other, others, 2, 3)
    for left, right in zip(params, others, strict=True):
        assert same_bits(left, right)
