"""What the optimizers refuse at once, where torch.optim would fail in a step, or not at all."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from polycast._dtypes import dtype_of

_REAL = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_DTYPES = (*_REAL, torch.complex64, torch.complex128, torch.complex32)
_NUMBERS = ("lr", "momentum", "dampening", "weight_decay", "eps")
_FLAGS = ("nesterov", "amsgrad", "maximize", "foreach", "capturable", "differentiable", "fused")


def check_options(**options: Any) -> None:
    """Raise what is wrong with a constructor's options, where torch.optim says nothing or nothing clear.

    Args:
        options: In the order in which torch.optim looks at them. What it refuses by itself is left to it, and with that
            what comes after.

    Raises:
        TypeError: An argument is of another type than it should be.
        ValueError: A number is NaN.
    """
    _check_options(options, "")


@contextmanager
def named_params(params: Any) -> Iterator[None]:
    """Raise a clear TypeError where torch.optim, called in here, refuses ``params`` by another."""
    try:
        yield
    except TypeError:
        _check_iterable(params, "")
        raise


def check_group(optimizer: torch.optim.Optimizer, group: Any) -> list[Tensor]:
    """Return the parameters of a group that an optimizer is to take in; an iterator in the group becomes a list.

    Raises:
        TypeError: An option is of another type than it should be, or a parameter's dtype is none that a step takes.
        ValueError: A number is NaN, a beta is not between 0 and 1, or the group has no parameters.
    """
    if not isinstance(group, dict):
        return []  # torch.optim's own error names it
    number = len(optimizer.param_groups)
    if "params" not in group:
        raise ValueError(f"parameter group {number} has {', '.join(map(repr, group)) or 'nothing'}; give it 'params'")
    where = f" of parameter group {number}"
    if "state_dtype" in group:
        raise TypeError(f"state_dtype{where} is {group['state_dtype']!r}; pass it to the optimizer, for all groups")
    _check_options(group, where)
    refuse_differentiable(type(optimizer).__name__, group, where)
    for beta in group.get("betas", ()):
        if not isinstance(beta, Tensor) and not 0 <= beta < 1:
            raise ValueError(f"betas{where} is {group['betas']!r}; it takes numbers from 0 to below 1")
    _check_iterable(group["params"], where)
    if isinstance(group["params"], Iterator):
        group["params"] = list(group["params"])
    return list(_parameters(type(optimizer).__name__, group["params"], where))


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
        if type(value) not in (float, int) or math.isnan(value):
            _check_number(f"param_groups[...]['{name}']", value, value)
        values.append(float(value))
    return values


def _parameters(optimizer: str, params: Any, where: str) -> Iterator[Tensor]:
    for index, entry in enumerate([params] if isinstance(params, Tensor) else params):
        name, param = entry if isinstance(entry, tuple) and len(entry) == 2 else ("", entry)
        if not isinstance(param, Tensor):
            continue  # torch.optim's own error names it
        # The quantized weights of a module, which never get a gradient, may be among its parameters.
        frozen = isinstance(param, nn.Parameter) and not param.requires_grad
        if param.dtype not in _DTYPES and not frozen:
            which = f"params[{index}]{f' ({name!r})' if name else ''}{where}"
            raise TypeError(
                f"syncfree.{optimizer} cannot update {which}, which is of {param.dtype}; it takes "
                f"{', '.join(map(str, _REAL))} and complex dtypes; convert it, or leave it out"
            )
        yield param


def _check_iterable(params: Any, where: str) -> None:
    try:
        iter(params)
        holds_modules = isinstance(params, (nn.Sequential, nn.ModuleList))
    except TypeError:
        holds_modules = isinstance(params, nn.Module)
        if not holds_modules:
            text = f"params{where} is {params!r}; it takes parameters, such as model.parameters()"
            raise TypeError(text) from None
    if holds_modules:
        raise TypeError(f"params{where} is a {type(params).__name__}; pass its parameters()")


def _check_options(options: dict[str, Any], where: str) -> None:
    lr = options.get("lr")
    if isinstance(lr, Tensor) and lr.is_complex():
        raise TypeError(f"lr{where} is a tensor of {lr.dtype}; it takes a number, or a tensor of a real dtype")
    if isinstance(lr, Tensor) and lr.numel() != 1:
        if not where:
            return  # torch.optim's own error
        raise ValueError(f"lr{where} has {lr.numel()} elements; it takes one")
    for name, value in options.items():
        if name in _NUMBERS:
            _check_number(name + where, value, value)
            if not where and name != "dampening" and isinstance(value, Real) and value < 0:
                return
        elif name == "betas":
            _check_betas(f"betas{where}", value)
            if not where and any(isinstance(beta, Real) and not 0 <= float(beta) < 1 for beta in value):
                return
        # What has a truth value of its own: 0 and NumPy's booleans too, but no text, of which "False" would be true.
        elif name in _FLAGS and not hasattr(value, "__bool__"):
            raise TypeError(f"{name}{where} is {value!r}; it takes True or False")


def _check_betas(name: str, betas: Any) -> None:
    if isinstance(betas, str) or not hasattr(betas, "__getitem__") or not hasattr(betas, "__len__") or len(betas) != 2:
        raise TypeError(f"{name} is {betas!r}; it takes two numbers, such as (0.9, 0.999)")
    for index in range(2):
        _check_number(name, betas[index], betas)


def _check_number(name: str, value: Any, shown: Any) -> None:
    if not isinstance(value, (Real, Tensor)):
        raise TypeError(f"{name} is {shown!r}; it takes {'two numbers' if shown is not value else 'a number'}")
    # A tensor on a device is not read, nor a fake one; one of several elements is another error.
    if isinstance(value, Tensor):
        is_nan = type(value) is Tensor and value.is_cpu and value.numel() == 1 and bool(value.isnan())
    else:
        is_nan = math.isnan(value)
    if is_nan:
        raise ValueError(f"{name} is {shown!r}; NaN would reach every parameter, so pass a number")
