"""Checks of a gradient scaler's numbers. PyTorch accepts numbers with which training cannot continue."""

import math
from numbers import Integral, Real
from typing import Any

from torch import Tensor


def check_number(name: str, value: Any, above: float = -math.inf, kind: Any = Real) -> float:
    """Return a number or a one-element tensor as a float. Raise an error unless it is finite and above a bound."""
    if not isinstance(value, (kind, Tensor)):
        wanted, remedy = ("a number", "a float") if kind is Real else ("an integer", "an int")
        raise TypeError(f"{name}: expected {wanted}, got {value!r:.60}; pass {remedy}")
    if not above < float(value) < math.inf:
        wanted = "a finite number" if above == -math.inf else f"a finite number above {above:g}"
        raise ValueError(f"{name}: expected {wanted}, got {value}; pass one, such as 1.0")
    return float(value)


def checked_state(state: dict[str, Any], bounds: tuple[float, float]) -> dict[str, Any]:
    """Return the state of a scaler with the scale within the bounds. Raise an error unless the values are numbers."""
    scale = check_number("scale", state["scale"], above=0)
    for name in ("growth_factor", "backoff_factor", "_growth_tracker"):
        check_number(name, state[name])
    check_number("growth_interval", state["growth_interval"], kind=Integral)
    return {**state, "scale": min(max(scale, bounds[0]), bounds[1])}
