"""Checks of a gradient scaler's arguments, where torch checks nothing or names another thing."""

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from polycast.syncfree.arguments import check_mapping

# A scale of 0 makes gradients of 0, and NaN when they are divided by it. The reciprocal of this one is finite.
_SMALLEST = torch.finfo(torch.float32).tiny
_STATE = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")


def check_outputs(outputs: Any) -> None:
    """Raise a ValueError for what holds no tensors, or is a dictionary of them, of which torch scales the keys."""
    if isinstance(outputs, (str, Mapping)) or not isinstance(outputs, Iterable):
        raise ValueError(
            f"outputs must be a Tensor or an iterable of Tensors, and are a {type(outputs).__name__}; pass the loss"
        )
    for each in outputs if isinstance(outputs, (list, tuple)) else ():
        if not isinstance(each, Tensor):
            check_outputs(each)


def check_new_scale(new_scale: Any) -> None:
    """Raise a TypeError unless it is a number, a tensor, or None."""
    if new_scale is not None and not isinstance(new_scale, (Real, Tensor)):
        raise TypeError(f"new_scale is {new_scale!r:.60}; it takes a number, or a tensor of one element")


def check_flags(**flags: Any) -> None:
    """Raise a TypeError if a flag is a text: "False" would be true."""
    for name, value in flags.items():
        if isinstance(value, str):
            raise TypeError(f"{name} is {value!r}; it takes True or False")


def check_interval(interval: Any) -> None:
    """Raise a TypeError where torch would in the first update, in terms of its operator."""
    if not hasattr(interval, "__index__"):
        raise TypeError(f"growth_interval is {interval!r}; it takes a whole number of steps")


def check_numbers(**numbers: Any) -> None:
    """Raise a TypeError for what is no number, and no tensor of one."""
    for name, value in numbers.items():
        if not isinstance(value, (Real, Tensor)):
            raise TypeError(f"{name} is {value!r}; it takes a number")


def check_bounds(init_scale: float, min_scale: float, max_scale: float) -> tuple[float, float]:
    """Return the bounds of the scale, or raise a ValueError if the first scale is outside of them."""
    low = max(min_scale, _SMALLEST)
    if low > max_scale:
        raise ValueError(f"max_scale is {max_scale}, below min_scale={low}; give one that is not smaller")
    if not low <= init_scale <= max_scale:
        raise ValueError(
            f"init_scale is {init_scale}, outside of min_scale={low} and max_scale={max_scale}; "
            "choose bounds that enclose it"
        )
    return low, max_scale


def check_clipping(max_norm: float, norm_type: float) -> tuple[float, float]:
    """Return both as numbers, or raise a ValueError or a TypeError if one is not positive."""
    numbers = []
    for name, value, wanted in (
        ("max_norm", max_norm, "a positive number"),
        ("norm_type", norm_type, "a positive number, or infinity"),
    ):
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"{name} is {value!r}; it takes {wanted}") from None
        if not number > 0:
            raise ValueError(f"{name} is {value}; it takes {wanted}")
        numbers.append(number)
    return numbers[0], numbers[1]


def check_state(state_dict: Mapping[str, Any]) -> None:
    """Raise an error for the state of something else; torch's own names an empty one."""
    check_mapping(state_dict, "GradScaler.state_dict()")
    if not state_dict:
        return
    if not state_dict.keys() >= set(_STATE):
        raise ValueError(
            f"a state with {sorted(map(str, state_dict))} is not one of a gradient scaler; load what "
            "GradScaler.state_dict() returned, or go on from the loss scale of another by GradScaler(init_scale=...)"
        )
    check_interval(state_dict["growth_interval"])


def not_an_optimizer(given: Any) -> TypeError:
    """Return the error for an object that is no optimizer and wraps none."""
    return TypeError(
        f"a {type(given).__name__} was given for an optimizer and has no param_groups; pass the optimizer itself, not "
        "its parameters, and each one by itself"
    )
