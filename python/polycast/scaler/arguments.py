"""Checks of a gradient scaler's numbers that torch leaves out: training could not continue."""

import math
from numbers import Real
from typing import Any

from torch import Tensor


def check_number(name: str, value: Any) -> float:
    """Return a number, or a tensor of one, as a float, or raise a TypeError."""
    if not isinstance(value, (Real, Tensor)):
        raise TypeError(f"{name}: expected a number, got {value!r:.60}")
    return float(value)


def check_scale(name: str, value: Any) -> float:
    """Return a scale, or raise a ValueError if it would never recover."""
    if not 0 < check_number(name, value) < math.inf:
        raise ValueError(f"{name}: expected a positive, finite number, got {value}")
    return float(value)
