"""What the optimizers refuse: one error that names it, and nothing is written, loaded or added."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.optimizers import OURS, PATHS, THEIRS, make, parameters, same_bits, set_grads, tensors
from tests.support.recorded_errors import RecordedError

F32, HALF = torch.float32, torch.float16
ONE, NAN = torch.ones(()), float("nan")
OP = torch.ops.polycast
SGD, Adam, AdamW = OURS.values()
Made = dict[str, Any]


def three(dtype: torch.dtype = F32) -> list[Tensor]:
    return parameters((3,), dtype=dtype)


ARGUMENTS: dict[str, Callable[[Made], object]] = {
    "state_dtype of a first group": lambda _: SGD([{"params": three(), "state_dtype": F32}]),
    "state_dtype of an added group": lambda made: made["SGD"].add_param_group({"params": three(), "state_dtype": F32}),
    "state_dtype that torch has not": lambda _: SGD(three(), state_dtype="float23"),
    "state_dtype of integers": lambda _: Adam(three(), state_dtype=torch.int32),
    "state_dtype of complex numbers": lambda _: AdamW(three(), state_dtype="complex64"),
    "state_dtype of no name": lambda _: SGD(three(), state_dtype=32),
    "differentiable": lambda _: AdamW(three(), differentiable=True),
    "an added differentiable group": lambda made: made["SGD"].add_param_group(
        {"params": three(), "differentiable": True}
    ),
    "Adam's state in float16, of a parameter": lambda _: Adam(three(HALF)),
    "Adam's state in float16, asked for": lambda _: AdamW(three(), state_dtype=HALF),
    "Adam's state in float16, of an added group": lambda made: made["Adam"].add_param_group({"params": three(HALF)}),
    "a closure that is none": lambda made: made["SGD"].step(ONE),
    "a scalar that is none": lambda made: made["SGD"].step(found_inf=1.0),
}


@pytest.mark.parametrize("title", ARGUMENTS)
def test_arguments_are_refused_by_name(title: str, recorded_error: RecordedError) -> None:
    made = {name: OURS[name](three()) for name in OURS}
    with recorded_error():
        ARGUMENTS[title](made)
    assert all(len(optimizer.param_groups) == 1 for optimizer in made.values())


def state_of(name: str, count: int = 1, **options: Any) -> dict[str, Any]:
    """Return the state of torch's optimizer after a step over so many parameters."""
    params = parameters(*[(3,)] * count)
    optimizer = THEIRS[name](params, **options)
    set_grads(params, 0)
    if not options:
        optimizer.step()
    state: dict[str, Any] = optimizer.state_dict()
    return state


STATES: dict[str, tuple[str, Callable[[], Any]]] = {
    "nothing": ("AdamW", dict),
    "a checkpoint of several": ("AdamW", lambda: {"model": {}, "optimizer": state_of("AdamW")}),
    "a path": ("AdamW", lambda: "checkpoint.pt"),
    "None": ("AdamW", lambda: None),
    "a scaler's": ("AdamW", lambda: torch.amp.grad_scaler.GradScaler("cpu").state_dict()),
    "a differentiable one": ("AdamW", lambda: state_of("AdamW", differentiable=True)),
    "SGD's": ("AdamW", lambda: {**state_of("SGD"), "param_groups": [{"params": [0], "lr": 0.1, "momentum": 0}]}),
    "Adam's": ("SGD", lambda: {**state_of("Adam"), "param_groups": [{"params": [0], "lr": 0.1, "eps": 0.1}]}),
}


@pytest.mark.parametrize("title", STATES)
def test_what_is_no_state_of_it_is_not_loaded(title: str, recorded_error: RecordedError) -> None:
    """Torch loads the state of another optimizer, and fails in the step with KeyError: 'betas'."""
    name, state = STATES[title]
    optimizer = OURS[name](three())
    before = deepcopy(optimizer.state_dict())
    with recorded_error():
        optimizer.load_state_dict(state())
    assert optimizer.state_dict() == before


def test_a_state_of_more_parameters_is_refused_as_by_torch() -> None:
    with pytest.raises(ValueError, match="a parameter group that doesn't match the size of optimizer's group"):
        AdamW(three()).load_state_dict(state_of("AdamW", 2))


@contextmanager
def unchanged(optimizer: Any) -> Iterator[None]:
    """Assert that no tensor that a step may write changes by a bit."""
    before = [(tensor, tensor.detach().clone()) for tensor in tensors(optimizer)]
    yield
    assert all(same_bits(tensor, value) for tensor, value in before)


def option(name: str, value: object) -> Callable[[Any], None]:
    return lambda optimizer: optimizer.param_groups[1].update({name: value})


def another(make_one: Callable[[], Tensor]) -> Callable[[Any], None]:
    def append(optimizer: Any) -> None:
        other = make_one()
        other.grad = torch.ones_like(other)
        optimizer.param_groups[1]["params"].append(other)

    return append


def state(value: Tensor) -> Callable[[Any], None]:
    def put(optimizer: Any) -> None:
        values = optimizer.state[optimizer.param_groups[1]["params"][0]]
        values["momentum_buffer" if "momentum_buffer" in values else "exp_avg"] = value

    return put


# What is wrong in the second of two groups.
FAULTS: dict[str, Callable[[Any], None]] = {
    "a NaN for lr": option("lr", NAN),
    "a tensor of NaN for lr": option("lr", torch.tensor(NAN)),
    "a text for lr": option("lr", "0.1"),
    "two numbers for lr": option("lr", torch.ones(2)),
    "None for weight_decay": option("weight_decay", None),
    "an expanded parameter": another(lambda: torch.ones(1).expand(3)),
    "a parameter of inference mode": another(lambda: torch.inference_mode()(torch.ones)(3)),
    "a state of other sizes": state(torch.ones(4)),
    "a state of integers": state(torch.ones(3, dtype=torch.int32)),
}


@pytest.mark.parametrize(("kind", "path"), [("SGD momentum", "fused"), ("Adam amsgrad", "composition")])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_second_group_leaves_the_first_as_it_is(
    fault: str, kind: str, path: str, recorded_error: RecordedError
) -> None:
    if "tensor of NaN" in fault and path == "composition":
        pytest.skip("never syncs, so it takes a NaN for what it is")
    params = parameters((3,), (3,))
    optimizer: Any = make(OURS, kind, [{"params": params[:1]}, {"params": params[1:]}])
    set_grads(params, 0)
    with PATHS[path]():
        optimizer.step()
        FAULTS[fault](optimizer)
        with unchanged(optimizer), recorded_error():
            optimizer.step()


SCALARS: dict[str, dict[str, Tensor]] = {
    "two for found_inf": {"found_inf": torch.zeros(2)},
    "none for found_inf": {"found_inf": torch.zeros(0)},
    "a bool for found_inf": {"found_inf": torch.tensor(False)},
    "float64 for found_inf": {"found_inf": torch.tensor(0.0, dtype=torch.float64)},
    "an integer for grad_scale": {"grad_scale": torch.tensor(2)},
    "two for clip_coef": {"clip_coef": torch.ones(1, 2)},
}


@pytest.mark.parametrize(
    ("kind", "path"), [("SGD momentum", "fused"), ("AdamW", "composition"), ("SGD dampening", "torch.optim")]
)
@pytest.mark.parametrize("title", SCALARS)
def test_a_scalar_is_one_number(title: str, kind: str, path: str, recorded_error: RecordedError) -> None:
    params = parameters((3,), (2, 2))
    optimizer: Any = make(OURS, kind, params)
    set_grads(params, 0)
    with PATHS[path]():
        optimizer.step()
        with unchanged(optimizer), recorded_error():
            optimizer.step(**SCALARS[title])


PLAIN_SGD: dict[str, Any] = {"lr": ONE, "weight_decay": 0.0, "momentum": 0.0, "nesterov": False, "maximize": False}
OPERATORS: dict[str, Callable[[list[Tensor]], object]] = {
    "find_non_finite of two devices": lambda mixed: OP.find_non_finite(mixed),
    "norm of two devices": lambda mixed: OP.norm(mixed, 2.0),
    "unscale_ of two devices": lambda mixed: OP.unscale_(mixed, torch.zeros(()), ONE * 2),
    "unscale_ by a scale elsewhere": lambda mixed: OP.unscale_(mixed[:1], torch.zeros(()), ONE.to("meta")),
    "sgd_step_ of two devices": lambda mixed: OP.sgd_step_(mixed, [each.clone() for each in mixed], [], **PLAIN_SGD),
    "find_non_finite of nothing": lambda _: OP.find_non_finite([]),
    "norm of nothing": lambda _: OP.norm([], 2.0),
    "norm of type 0": lambda _: OP.norm([ONE], 0.0),
    "norm of type NaN": lambda _: OP.norm([ONE], NAN),
}


@pytest.mark.parametrize("path", ["fused", "composition"])
@pytest.mark.parametrize("title", OPERATORS)
def test_operators_refuse_their_lists(title: str, path: str, recorded_error: RecordedError) -> None:
    mixed = [torch.ones(3), torch.ones(3, device="meta")]
    with PATHS[path](), recorded_error():
        OPERATORS[title](mixed)
    assert mixed[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize(("kind", "alone"), [("Adam amsgrad", False), ("AdamW", True)])
def test_a_sparse_gradient_is_none_for_adam(kind: str, alone: bool, recorded_error: RecordedError) -> None:
    params = parameters((4,), (6, 3))
    optimizer: Any = make(OURS, kind, params)
    set_grads(params, 0)
    optimizer.step()
    params[1].grad = torch.ones(6, 3).to_sparse()
    if alone:
        params[0].grad = None
    with unchanged(optimizer), recorded_error():
        optimizer.step()


def test_a_fault_in_a_group_of_torchs_step_leaves_the_others_unchanged() -> None:
    """One group is stepped by ours and the other by torch.optim, which adds no weight decay to a sparse gradient."""
    params = parameters((4,), (6, 3))
    optimizer = SGD([{"params": params[:1]}, {"params": params[1:], "weight_decay": 0.1}], lr=0.1)
    set_grads(params, 0)
    params[1].grad = torch.ones(6, 3).to_sparse()
    with unchanged(optimizer), pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
        optimizer.step()
