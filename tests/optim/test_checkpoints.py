"""State that is saved and loaded: torch.optim's, in its dtype, through the users' hooks."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from polycast import syncfree
from torch import Tensor

from tests.support.optimizers import (
    FOR_LOOP,
    KINDS,
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

STEPS = 10


def train(optimizer: Any, params: list[Tensor], first: int = 0, steps: int = STEPS) -> None:
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


@pytest.mark.parametrize("steps", [0, 1, STEPS])
@pytest.mark.parametrize("kind", KINDS)
def test_state_there_and_back_without_a_step_is_the_same_bits(kind: str, steps: int, real_device: str) -> None:
    """From torch.optim on the host to ours on a device, and back."""
    params = parameters(*SHAPES)
    theirs = make(THEIRS, kind, params)
    train(theirs, params, steps=steps)
    ours, others = switched(OURS, kind, params, theirs, real_device)
    back, returned = switched(THEIRS, kind, others, ours, "cpu")
    train(theirs, params, STEPS)
    train(back, returned, STEPS)
    assert all(map(same_bits, params, returned))


@pytest.mark.parametrize("kind", KINDS)
def test_training_that_moves_between_devices_and_libraries_is_training_on_the_host(kind: str, real_device: str) -> None:
    """Ours on the device, torch.optim there, ours on the host, ours on the device: a few steps each."""
    straight, params = parameters(*SHAPES), parameters(*SHAPES, device=real_device)
    theirs, optimizer = make(THEIRS, kind, straight), make(OURS, kind, params)
    train(theirs, straight, 0, 8)
    train(optimizer, params, 0, 2)
    for first, (library, device) in zip(
        (2, 4, 6), ((THEIRS, real_device), (OURS, "cpu"), (OURS, real_device)), strict=True
    ):
        optimizer, params = switched(library, kind, params, optimizer, device)
        train(optimizer, params, first, 2)
        state = [value for values in optimizer.state.values() for value in values.values() if value is not None]
        assert {value.device.type for value in state if value.dim()} <= {device}
    torch.testing.assert_close(on_host(params), on_host(straight), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
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
            if {name for name, value in values.items() if value is not None}
        }
        groups = [{**group, "foreach": None, "fused": None} for group in state_dict["param_groups"]]
        return state_dict.keys(), state, groups

    assert description(OURS) == description(THEIRS)


@pytest.mark.parametrize("kind", ["SGD momentum", "SGD nesterov", "SGD dampening"])
def test_momentum_with_a_skipped_first_step_goes_on_as_without_a_step(kind: str, real_device: str) -> None:
    """By torch.optim, to which a momentum buffer of zeros goes, or none."""
    (weight,) = parameters((3,), device=real_device)
    optimizer: Any = make(OURS, kind, [weight])
    set_grads([weight], 0)
    optimizer.step(found_inf=torch.tensor(1.0))
    other, others = switched(THEIRS, kind, [weight], optimizer, "cpu")
    theirs = make(THEIRS, kind, straight := clones([weight], "cpu"))
    train(other, others, 1)
    train(theirs, straight, 1)
    assert same_bits(others[0], straight[0])


@pytest.mark.parametrize("kind", ["SGD momentum", "SGD nesterov", "SGD dampening"])
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


STATEFUL = [kind for kind in KINDS if kind != "SGD"]


def moments(optimizer: Any) -> list[Tensor]:
    return [value for values in optimizer.state.values() for name, value in values.items() if name != "step"]


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
    """In bits of its own, and without a warning, which would be an error."""
    params = parameters((3,), (2, 2), dtype=dtype)
    ours, other = (make(OURS, kind, params, state_dtype=torch.float32) for _ in range(2))
    train(ours, params, 0, 2)
    other.load_state_dict(ours.state_dict())
    for left, right in zip(moments(ours), moments(other), strict=True):
        assert same_bits(left, right)
        assert left.data_ptr() != right.data_ptr()


TWO = pytest.mark.parametrize("kind", ["SGD momentum", "AdamW"])
STATE_DTYPES = pytest.mark.parametrize("state_dtype", [None, torch.float32])


def saved(kind: str, count: int = 1) -> dict[str, Any]:
    """Return the state of torch's optimizer after a step over so many parameters."""
    params = parameters(*[(3,)] * count)
    optimizer = make(THEIRS, kind, params)
    train(optimizer, params, steps=1)
    return optimizer.state_dict()


def average(kind: str) -> str:
    return "momentum_buffer" if kind.startswith("SGD") else "exp_avg"


@STATE_DTYPES
@TWO
def test_what_a_hook_makes_of_the_state_is_loaded(kind: str, state_dtype: torch.dtype | None) -> None:
    def sevens(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "state": {0: {**state["state"][0], average(kind): torch.full((3,), 7.0)}}}

    params = parameters((3,))
    optimizer = make(OURS, kind, params, state_dtype=state_dtype)
    optimizer.register_load_state_dict_pre_hook(sevens)
    optimizer.load_state_dict(saved(kind))
    assert optimizer.state[params[0]][average(kind)].tolist() == [7.0] * 3


@STATE_DTYPES
@TWO
def test_a_hook_can_leave_parameters_out(kind: str, state_dtype: torch.dtype | None) -> None:
    def first(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"state": {0: state["state"][0]}, "param_groups": [{**state["param_groups"][0], "params": [0]}]}

    optimizer = make(OURS, kind, parameters((3,)), state_dtype=state_dtype)
    optimizer.register_load_state_dict_pre_hook(first)
    optimizer.load_state_dict(saved(kind, 2))
    assert len(optimizer.state) == 1


@TWO
def test_a_hook_after_loading_sees_the_types_that_are_kept(kind: str) -> None:
    seen = []
    params = parameters((3,), dtype=torch.bfloat16)
    optimizer = make(OURS, kind, params, state_dtype=torch.float32)
    optimizer.register_load_state_dict_post_hook(
        lambda optimizer: seen.append(optimizer.state[params[0]][average(kind)].dtype)
    )
    optimizer.load_state_dict(saved(kind))
    assert seen == [torch.float32]


@pytest.mark.parametrize("kind", KINDS)
def test_a_hook_on_saving_sees_torchs_state(kind: str) -> None:
    params = parameters((3,))
    optimizer = make(OURS, kind, params)
    optimizer.register_state_dict_post_hook(lambda _, state: {"wrapped": state})
    train(optimizer, params, steps=1)
    (content,) = optimizer.state_dict().values()
    names = [{key: values.keys() for key, values in state["state"].items()} for state in (content, saved(kind))]
    assert names[0] == names[1]


@pytest.mark.parametrize("library", [syncfree, torch.optim], ids=["sync-free", "torch"])
@pytest.mark.parametrize(
    ("name", "other", "missing"), [("AdamW", "SGD", "betas, eps"), ("SGD", "Adam", "momentum, dampening")]
)
def test_the_state_of_another_optimizer_is_refused_before_anything_is_loaded(
    library: Any, name: str, other: str, missing: str
) -> None:
    """Torch's loads it and fails in the step, with KeyError: 'betas'."""
    params = [torch.ones(2, requires_grad=True)]
    optimizer, saved = getattr(syncfree, name)(params, lr=0.5), getattr(library, other)(params)
    text = (
        rf"^the state is not that of an optimizer such as {name}: its parameter group 0 has .*lr.*, and no {missing};"
    )
    with pytest.raises(ValueError, match=text):
        optimizer.load_state_dict(saved.state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("choice", ["fused", "foreach"])
@pytest.mark.parametrize("name", OURS)
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


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_capturable_travels_with_the_state_both_ways(name: str) -> None:
    """Torch takes such steps on accelerators only, and refuses them of a state of its own, too."""
    params = parameters((3,))
    ours, own = OURS[name](params), THEIRS[name](params, capturable=True)
    ours.load_state_dict(own.state_dict())
    train(ours, params, steps=2)
    theirs = THEIRS[name](params)
    theirs.load_state_dict(ours.state_dict())
    assert ours.param_groups[0]["capturable"] is theirs.param_groups[0]["capturable"] is True
    for optimizer in (own, theirs):
        with pytest.raises(AssertionError, match="If capturable=True, params and state_steps must be on supported"):
            optimizer.step()


# What is loaded, and what is raised.
WRONG_STATES = """\
{}
  ValueError: the state is not that of an optimizer: it has nothing, and no state, param_groups; load what
{"model": {}, "optimizer": saved("AdamW")}
  ValueError: the state is not that of an optimizer: it has model, optimizer, and no state, param_groups; load what
"checkpoint.pt"
  TypeError: the state is 'checkpoint.pt', and no dict; load what AdamW.state_dict() returned
None
  TypeError: the state is None, and no dict; load what AdamW.state_dict() returned
torch.amp.GradScaler("cpu").state_dict()
  ValueError: the state is not that of an optimizer: it has _growth_tracker, backoff_factor, growth_factor,
make(THEIRS, "AdamW", parameters((3,)), differentiable=True).state_dict()
  TypeError: differentiable of parameter group 0 of the state is True, and autograd does not record the steps of
saved("AdamW", 2)
  ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group
""".splitlines()


@pytest.mark.parametrize(("state", "text"), list(zip(WRONG_STATES[::2], WRONG_STATES[1::2], strict=True)))
def test_what_is_no_state_is_named_and_nothing_is_loaded(state: str, text: str) -> None:
    optimizer = make(OURS, "AdamW", parameters((3,)))
    before = deepcopy(optimizer.state_dict())
    with pytest.raises((TypeError, ValueError)) as caught:
        optimizer.load_state_dict(eval(state))
    assert f"{caught.typename}: {caught.value}".startswith(text.strip())
    assert optimizer.state_dict() == before
