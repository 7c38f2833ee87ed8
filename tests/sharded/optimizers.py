"""Steps: fully sharded models, and parameters placed in every other way, change as under torch.optim."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
import torch
from polycast import syncfree
from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor

from tests.support.optimizers import OURS, THEIRS, make
from tests.support.sharded.models import PLACES, assert_same, give, leaves, partial, placed, whole
from tests.support.sharded.world import check

SOME = ("SGD", "SGD nesterov", "SGD dampening", "Adam amsgrad", "AdamW")


@contextmanager
def raises(text: str) -> Iterator[None]:
    with pytest.raises((ValueError, RuntimeError), match=text):
        yield


@check
def placements_meshes_and_plain_tensors_mixed() -> None:
    for kind in SOME:
        params, others = leaves(), [whole(param).clone().requires_grad_() for param in leaves()]
        ours, theirs = make(OURS, kind, params), make(THEIRS, kind, others)
        for number in range(10):
            give(params, number)
            for param, other in zip(params, others, strict=True):
                other.grad = whole(param.grad)  # type: ignore[arg-type]
            if number in (2, 5):
                params[1].grad = others[1].grad = params[-1].grad = others[-1].grad = None
            ours.step()
            theirs.step()
        assert_same(params, others, tolerance=3e-6)
        for mine, other in zip(params, others, strict=True):
            for name in ("exp_avg", "momentum_buffer"):
                if ours.state[mine].get(name) is not None:
                    assert type(ours.state[mine][name]) is type(mine.detach())
                    assert_same([ours.state[mine][name]], [theirs.state[other][name]], tolerance=3e-6)


def pending(grad: Tensor) -> Tensor:
    """Return a gradient that a collective still computes."""
    result: Any = placed(grad, "R")
    result._local_tensor = AsyncCollectiveTensor(result._local_tensor)
    return result  # type: ignore[no-any-return]


@check
def gradients_placed_otherwise() -> None:
    grad = torch.arange(12.0).reshape(4, 3)
    gradients = (lambda: placed(grad, "R"), lambda: placed(grad, "1"), lambda: partial(grad), lambda: pending(grad))
    for place, make_grad in product(("0", "1", "R"), gradients):
        param = placed(torch.ones(4, 3), place).requires_grad_()
        optimizer: Any = syncfree.SGD([param], lr=0.1)
        param.grad = make_grad()  # type: ignore[no-untyped-call]
        optimizer.step()
        assert_same([param], [1 - 0.1 * grad])
        assert_same([param.grad], [grad])


@check
def placements_that_no_step_can_use_are_refused() -> None:
    ones = torch.ones(4, 3)
    for param, grad, text in (
        (
            placed(ones, "0"),
            placed(ones, "0R", 0, 1),
            "gradient of weight is placed as .*give it a DTensor on the same mesh",
        ),
        (partial(ones), partial(ones), r"weight is placed as .*Partial.*redistribute it to Replicate\(\)"),
    ):
        optimizer = syncfree.AdamW([("weight", param.requires_grad_())])
        param.grad = grad
        with raises(text):
            optimizer.step()
        assert_same([param], [ones])


@check
def a_stale_backward_raises() -> None:
    for place in PLACES:
        param = placed(torch.ones(4, 3), *place).requires_grad_()
        optimizer: Any = syncfree.AdamW([param])
        stale = (param * param).sum()
        param.grad = placed(torch.ones(4, 3), *place)
        optimizer.step()
        state = [optimizer.state[param][name] for name in ("exp_avg", "exp_avg_sq")]
        versions = [tensor._version for tensor in state]
        optimizer.step(found_inf=torch.ones(()))
        assert [tensor._version for tensor in state] == versions
        optimizer.step(found_inf=torch.zeros(()))
        assert all(tensor._version > version for tensor, version in zip(state, versions, strict=True))
        with raises("modified by an inplace operation"):
            stale.backward()  # type: ignore[no-untyped-call]
