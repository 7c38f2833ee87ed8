"""What the optimizers refuse at once, where torch.optim would fail in a step, or not at all."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from polycast._dtypes import dtype_of

_REAL = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def refuse_differentiable(optimizer: str, group: Any, where: str) -> None:
    """Raise a TypeError where a program asks to differentiate through the step, which no gradient flows through."""
    if group.get("differentiable"):
        raise TypeError(
            f"differentiable{where} is {group['differentiable']!r}, and autograd does not record the steps of "
            f"syncfree.{optimizer}; leave it out, or use torch.optim.{optimizer}"
        )


def check_mapping(state_dict: Any, source: str) -> None:
    """Raise a TypeError for what is no state at all, such as the name of a file."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"the state is {state_dict!r:.60}, and no dict; load what {source} returned")


def check_state_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """Return the argument ``state_dtype``, or raise a TypeError or a ValueError."""
    found = None if dtype is None else dtype_of(dtype, "state_dtype")
    if found is not None and found not in _REAL:
        raise TypeError(
            f"the state_dtype is {found}; it takes {', '.join(map(str, _REAL))}, or None for that of each parameter"
        )
    return found


def numbers(*options: tuple[str, Any]) -> list[float]:
    """Return options of a parameter group, which may have been set to anything since the group was added.

    Raises:
        TypeError: One is no number.
        ValueError: One is NaN.
    """
    values = []
    for name, value in options:
        if type(value) not in (float, int) and not isinstance(value, (Real, Tensor)):
            raise TypeError(f"param_groups[...]['{name}'] is {value!r}; it takes a number")
        values.append(float(value))
        if math.isnan(values[-1]):
            raise ValueError(f"param_groups[...]['{name}'] is nan; NaN would reach every parameter")
    return values
