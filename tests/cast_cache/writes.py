"""Writes to a weight, grouped by whether the cast cache notices them."""

from collections.abc import Callable
from typing import Any

import polycast
import torch
from torch import nn

from tests.cast_cache.stock import module_of

Change = Callable[[nn.Parameter, float], object]
without_grad = torch.no_grad()


def new_data(weight: nn.Parameter, value: float) -> None:
    weight.data = weight.data + value


def add_to_data(weight: nn.Parameter, value: float) -> None:
    """Add to ``.data`` in place, like code that merges an adapter."""
    weight.data += value


def swap_data(weight: nn.Parameter, value: float) -> None:
    weight.data, other = weight.data + value, weight.data
    other.add_(value)


def transpose_data(weight: nn.Parameter, _value: float) -> None:
    weight.data = weight.data.t()  # The storage, address and version do not change.


def other_type_and_back(weight: nn.Parameter, value: float) -> None:
    dtype = weight.dtype
    new_data(weight, value)
    module_of(weight).double().to(dtype)


def step(kind: type[torch.optim.Optimizer], **options: Any) -> Change:
    def change(weight: nn.Parameter, value: float) -> None:
        weight.grad = torch.full_like(weight, value)
        kind([weight], lr=0.5, **options).step()  # type: ignore[call-arg]

    return change


# The cast cache notices these writes by a version, an address, the strides or a hook.
CHANGES: dict[str, Change] = {
    "in-place operation": without_grad(lambda w, value: w.add_(value)),
    "operation on a view": without_grad(lambda w, value: w[0].mul_(1 + value)),
    "operation on a detached tensor": without_grad(lambda w, value: w.detach().add_(value)),
    "in inference mode": torch.inference_mode()(lambda w, value: w.add_(value)),
    "load_state_dict": lambda w, value: module_of(w).load_state_dict({"tensor0": w.detach() + value}),
    "new .data": new_data,
    # The second new tensor can have the address of the original one.
    "new .data, twice": lambda w, value: list(map(new_data, (w, w), (value, value))),
    "swapped .data": swap_data,
    "a view as .data": transpose_data,
    "another dtype and back": other_type_and_back,
    "AdamW": step(torch.optim.AdamW),
    "polycast's AdamW": step(polycast.syncfree.AdamW),
}
NOT_ON_XLA: dict[str, Change] = {
    "set_": without_grad(lambda w, value: w.set_(w + value)),
    "foreach": without_grad(lambda w, value: torch._foreach_add_([w], value)),
    "Adam, fused": step(torch.optim.Adam, fused=True),
}
# Within a region, the cache notices these writes only if casts are kept.
ASSIGNED: dict[str, Change] = {"+= of .data": add_to_data}
# Only a later region notices these writes, and only if casts are not kept.
HIDDEN: dict[str, Change] = {"through .data": without_grad(lambda w, value: w.data.mul_(value))}
ALL = {**CHANGES, **NOT_ON_XLA, **ASSIGNED, **HIDDEN}
