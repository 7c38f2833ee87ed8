"""A check of a gradient scaler's numbers, because PyTorch accepts numbers with which training cannot continue."""

import math
from numbers import Real
from typing import Any

from torch import Tensor


def check_number(name: str, value: Any, above: float = -math.inf) -> float:
    """Return a finite number, or a tensor of one, as a float."""
    if not isinstance(value, (Real, Tensor)):
        raise TypeError(f"{name}: expected a number, got {value!r:.60}")
    if not above < float(value) < math.inf:
        raise ValueError(f"{name}: expected a finite number above {above:g}, got {value}")
    return float(value)
