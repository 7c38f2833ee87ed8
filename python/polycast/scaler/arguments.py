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


def checked_norm(max_norm: Any, norm_type: Any) -> tuple[float, float]:
    """Return the limit and the order of a norm as floats. Raise an error unless the scaler can clip to the limit."""
    max_norm, norm_type = float(max_norm), float(norm_type)
    if not max_norm > 0:
        raise ValueError(f"max_norm: expected a number above 0, got {max_norm}; pass one, such as 1.0 or inf")
    if norm_type not in (2, math.inf):
        remedy = "for another norm, call scaler.unscale_(optimizer), then torch.nn.utils.clip_grad_norm_"
        raise ValueError(f"norm_type: expected 2 or inf, got {norm_type}; {remedy}")
    return max_norm, norm_type


def checked_state(state: dict[str, Any], bounds: tuple[float, float]) -> dict[str, Any]:
    """Return the state of a scaler with the scale within the bounds. Raise an error unless the values are numbers."""
    scale = check_number("scale", state["scale"], above=0)
    for name in ("growth_factor", "backoff_factor", "_growth_tracker"):
        check_number(name, state[name])
    check_number("growth_interval", state["growth_interval"], kind=Integral)
    return {**state, "scale": min(max(scale, bounds[0]), bounds[1])}
