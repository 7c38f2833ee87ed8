"""Bad input: one clear error, and nothing is written, also where the fault is in the second of two groups."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.optimizers import KINDS, OURS, PATHS, make, parameters, same_bits, set_grads, tensors

ONE = torch.ones(())
NAN = float("nan")
Fault = Callable[[Any, Tensor], None]


def with_inference_tensor(optimizer: Any, param: Tensor) -> None:  # noqa: ARG001
    with torch.inference_mode():
        frozen = torch.ones(3)
    _replace(optimizer, frozen)


def expanded(optimizer: Any, param: Tensor) -> None:  # noqa: ARG001
    _replace(optimizer, torch.ones(1).expand(3))


def _replace(optimizer: Any, other: Tensor) -> None:
    other.grad = torch.ones_like(other)
    optimizer.param_groups[1]["params"].append(other)


def option(name: str, value: object) -> Fault:
    return lambda optimizer, _: optimizer.param_groups[1].update({name: value})


def state(value: Tensor) -> Fault:
    def put(optimizer: Any, param: Tensor) -> None:
        name = "momentum_buffer" if "momentum_buffer" in optimizer.state[param] else "exp_avg"
        optimizer.state[param][name] = value

    return put


# What is wrong in the second group, the error, and what it says.
FAULTS: dict[str, tuple[Fault, type[Exception], str]] = {
    "NaN lr": (option("lr", NAN), ValueError, "is nan"),
    "NaN tensor lr": (option("lr", torch.tensor(NAN)), ValueError, "is nan"),
    "lr of text": (option("lr", "0.1"), TypeError, r"param_groups\[...\]\['lr'\] is '0.1'; it takes a number"),
    "no weight_decay": (option("weight_decay", None), TypeError,
                        r"param_groups\[...\]\['weight_decay'\] is None; it takes a number"),
    "lr of two": (option("lr", torch.ones(2)), ValueError, "lr has 2 elements; it takes one"),
    "expanded": (expanded, ValueError, r"has the sizes \[3\] and is expanded, several elements in one place of memory"),
    "inference tensor": (with_inference_tensor, RuntimeError, "is an inference tensor, which cannot be written"),
    "state on another device": (state(torch.ones(3, device="meta")), NotImplementedError,
                                "Cannot copy out of meta tensor"),
    "state of other sizes": (
        state(torch.ones(4)), ValueError,
        r"\[0\] \(of param_groups\[1\]\['params'\]\[0\]\) has the sizes \[4\] and params\[0\] \[3\]; they must agree"),
    "state of int": (state(torch.ones(3, dtype=torch.int32)), TypeError,
                     "Strided tensor of torch.int32; pass strided tensors of torch.float32, torch.float64"),
}  # fmt: skip


@contextmanager
def unchanged(optimizer: Any) -> Iterator[None]:
    """Assert that no tensor that a step may write, but on meta, changes by a bit."""
    before = [(tensor, tensor.detach().clone()) for tensor in tensors(optimizer) if not tensor.is_meta]
    yield
    assert all(same_bits(tensor, value) for tensor, value in before)


@pytest.mark.parametrize("path", ["fused", "composition"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["SGD momentum", "Adam", "Adam amsgrad"])
def test_a_fault_in_the_second_group(kind: str, fault: str, path: str) -> None:
    change, error, text = FAULTS[fault]
    if "tensor lr" in fault and path == "composition":
        pytest.skip("never syncs, so it takes a NaN for what it is")
    params = parameters((3,), (3,))
    optimizer: Any = make(OURS, kind, [{"params": params[:1]}, {"params": params[1:]}])
    set_grads(params, 0)
    with PATHS[path]():
        optimizer.step()
        change(optimizer, params[1])
        with unchanged(optimizer), pytest.raises(error, match=text):
            optimizer.step()


# A scalar, its value, the error, and what it says.
SCALARS: list[tuple[str, Tensor, type[Exception], str]] = [
    ("found_inf", torch.zeros(2), ValueError, "has 2 elements; it takes one"),
    ("found_inf", torch.zeros(0), ValueError, "has 0 elements; it takes one"),
    ("found_inf", torch.tensor(0, dtype=torch.int32), TypeError, "is of torch.int32; it takes torch.float32"),
    ("found_inf", torch.tensor(False), TypeError, "is of torch.bool; it takes torch.float32"),
    ("found_inf", torch.tensor(0.0, dtype=torch.float64), TypeError, "is of torch.float64; it takes torch.float32"),
    ("grad_scale", torch.ones(2), ValueError, "has 2 elements; it takes one"),
    ("grad_scale", torch.tensor(2), TypeError, "is of torch.int64; it takes a floating-point dtype"),
    ("clip_coef", torch.ones(1, 2), ValueError, "has 2 elements; it takes one"),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("scalar", "value", "error", "text"), SCALARS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_scalar(kind: str, scalar: str, value: Tensor, error: type[Exception], text: str, path: str) -> None:
    params = parameters((3,), (2, 2))
    optimizer: Any = make(OURS, kind, params)
    set_grads(params, 0)
    with PATHS[path]():
        optimizer.step()
        with unchanged(optimizer), pytest.raises(error, match=f"{scalar} {text}"):
            optimizer.step(**{scalar: value})


MIXED: dict[str, tuple[Callable[[list[Tensor]], object], str]] = {
    "find_non_finite": (
        lambda mixed: torch.ops.polycast.find_non_finite(mixed),
        r"tensors\[1\] is on meta and tensors.* on cpu",
    ),
    "norm": (lambda mixed: torch.ops.polycast.norm(mixed, 2.0), r"tensors\[1\] is on meta and tensors.* on cpu"),
    "unscale_": (lambda mixed: torch.ops.polycast.unscale_(mixed, torch.zeros(()), ONE * 2), r"grads\[1\] is on meta"),
    "scale": (
        lambda mixed: torch.ops.polycast.unscale_(mixed[:1], torch.zeros(()), torch.ones((), device="meta")),
        "inv_scale is on meta and the tensors on cpu; move it there",
    ),
    "sgd_step_": (
        lambda mixed: torch.ops.polycast.sgd_step_(
            mixed, [tensor.clone() for tensor in mixed], [], lr=ONE, weight_decay=0.0, momentum=0.0, nesterov=False,
            maximize=False,
        ),
        r"params\[1\] is on meta and params.* on cpu",
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", MIXED)
def test_lists_of_mixed_devices(case: str, path: str) -> None:
    call, text = MIXED[case]
    mixed = [torch.ones(3), torch.ones(3, device="meta")]
    with PATHS[path](), pytest.raises(RuntimeError, match=text):
        call(mixed)
    assert mixed[0].tolist() == [1, 1, 1]


def test_norms_and_checks_of_nothing() -> None:
    for operator, arguments in ((torch.ops.polycast.find_non_finite, ()), (torch.ops.polycast.norm, (2.0,))):
        with pytest.raises(ValueError, match="tensors is empty; pass at least one"):
            operator([], *arguments)
    for norm_type in (0.0, -1.0, NAN):
        with pytest.raises(ValueError, match=r"norm: norm_type is .*; it takes a positive number, or infinity"):
            torch.ops.polycast.norm([ONE], norm_type)


@pytest.mark.parametrize("alone", [False, True], ids=["beside a dense one", "alone"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("Adam")])
def test_a_sparse_gradient_that_adam_cannot_use(kind: str, alone: bool) -> None:
    params = parameters((4,), (6, 3))
    optimizer: Any = make(OURS, kind, params)
    set_grads(params, 0)
    optimizer.step()
    params[1].grad = torch.ones(6, 3).to_sparse()
    if alone:
        params[0].grad = None
    text = f"^{KINDS[kind][0]} does not support sparse gradients, please consider SparseAdam instead$"
    with unchanged(optimizer), pytest.raises(RuntimeError, match=text):
        optimizer.step()


def test_a_fault_in_a_group_of_torchs_step_leaves_the_others_unchanged() -> None:
    """One group is stepped by ours and the other by torch.optim, which adds no weight decay to a sparse gradient."""
    params = parameters((4,), (6, 3))
    optimizer = OURS["SGD"]([{"params": params[:1]}, {"params": params[1:], "weight_decay": 0.1}], lr=0.1)
    set_grads(params, 0)
    params[1].grad = torch.ones(6, 3).to_sparse()
    with unchanged(optimizer), pytest.raises(RuntimeError, match=re.escape("add(sparse, dense) is not supported")):
        optimizer.step()
