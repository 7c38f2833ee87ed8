"""Sparse gradients that a step refuses, before it writes; those that it takes are in the random programs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.optimizers import KINDS, OURS, make, parameters, same_bits, tensors

SHAPE = (6, 3)
FITS = r"^the momentum_buffer of a parameter of \(6, 3\) on cpu is of \(4,\) on cpu; load the state that belongs"


def fitting(_: Any) -> None:
    """Leave the state as it is."""


def other_momentum(optimizer: Any) -> None:
    param = optimizer.param_groups[0]["params"][1]
    optimizer.state[param]["momentum_buffer"] = torch.zeros(4)


REFUSED: list[tuple[str, Callable[[Any], None], type[Exception], str]] = [
    *[
        (kind, fitting, RuntimeError,
         f"^{KINDS[kind][0]} does not support sparse gradients, please consider SparseAdam instead$")
        for kind in KINDS if kind.startswith("Adam")
    ],
    ("SGD nesterov", fitting, RuntimeError,
     r"weight_decay is 0.01 and the gradient of a parameter of \(6, 3\) is sparse"),
    ("SGD momentum", other_momentum, ValueError, FITS),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change", "error", "text"), REFUSED)
def test_a_refused_sparse_gradient_leaves_all_as_it_was(
    kind: str, change: Callable[[Any], None], error: type[Exception], text: str
) -> None:
    params = parameters((4,), SHAPE)
    optimizer: Any = make(OURS, kind, params)
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer.step()
    change(optimizer)
    params[1].grad = torch.ones(SHAPE).to_sparse()
    before = [tensor.detach().clone() for tensor in tensors(optimizer)]
    with pytest.raises(error, match=text):
        optimizer.step()
    assert all(map(same_bits, tensors(optimizer), before))
