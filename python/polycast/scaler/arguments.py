"""A check of a gradient scaler's numbers. PyTorch accepts numbers with which training cannot continue."""

import math
from numbers import Real
from typing import Any

from torch import Tensor


def check_number(name: str, value: Any, above: float = -math.inf) -> float:
    """Return a number or a one-element tensor as a float. Raise an error unless it is finite and above a bound."""
    if not isinstance(value, (Real, Tensor)):
        raise TypeError(f"{name}: expected a number, got {value!r:.60}; convert it")
    if not above < float(value) < math.inf:
        raise ValueError(f"{name}: expected a finite number above {above:g}, got {value}; use such a number")
    return float(value)
