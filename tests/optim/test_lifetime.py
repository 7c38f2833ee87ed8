"""What an optimizer holds on to between steps, who may take it away, and steps from several threads."""

import gc
import weakref
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
import torch
from torch import nn

from tests.optimizers import KINDS, OURS, SHAPES, clones, make, parameters, same_bits, set_grads, tensors


def hook(param: Any, optimizer: Any) -> None:
    param.register_hook(lambda grad: grad * len(optimizer.param_groups))


RINGS: dict[str, Callable[[Any, Any], None]] = {
    "an attribute": lambda param, optimizer: setattr(param, "owner", optimizer),
    "a hook": hook,
    "a group": lambda param, optimizer: optimizer.param_groups[0].update(owner=optimizer, param=param),
}


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_ring_through_a_parameter_is_garbage(kind: str, ring: str) -> None:
    params = parameters(*SHAPES)
    optimizer = make(OURS, kind, params)
    for param in params:
        RINGS[ring](param, optimizer)
    set_grads(params, 0)
    optimizer.step()
    held: list[weakref.ref[Any]] = [weakref.ref(optimizer), *map(weakref.ref, params)]
    del param, params, optimizer
    gc.collect()
    assert [reference() for reference in held] == [None] * len(held)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_can_be_swapped_between_steps(kind: str) -> None:
    """Torch refuses to swap a tensor that anything else refers to."""
    param, other = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(2))
    optimizer = make(OURS, kind, [param])
    set_grads([param], 0)
    optimizer.step()
    torch.utils.swap_tensors(param, other)  # type: ignore[no-untyped-call]
    set_grads([param], 1)
    before = other.detach().clone()
    optimizer.step()
    assert torch.equal(other, before)
    assert (param != 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_threads_take_turns(kind: str) -> None:
    params = parameters(*SHAPES)
    alone = clones(params)
    for these in (params, alone):
        set_grads(these, 0)
    optimizer, reference = make(OURS, kind, params), make(OURS, kind, alone)

    def work() -> None:
        for _ in range(50):
            optimizer.step()

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(200):
        reference.step()
    assert all(map(same_bits, tensors(optimizer), tensors(reference)))
