"""Decorators for custom autograd functions under autocast: ``custom_fwd`` and ``custom_bwd``."""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar, overload

import torch
from torch.amp.autocast_mode import autocast as StockAutocast

from polycast._dtypes import dtype_of
from polycast.devices import HOST, SHAPES_ONLY, known_device_type
from polycast.scope import scopes

P = ParamSpec("P")
R = TypeVar("R")


class _Region(NamedTuple):
    """The autocast state and the scope in which a forward ran."""

    device_type: str
    enabled: bool
    dtype: torch.dtype
    scope: scopes.Held


@overload
def custom_fwd(fwd: Callable[P, R]) -> Callable[P, R]: ...
@overload
def custom_fwd(
    *, device_type: str | torch.device | None = None, cast_inputs: torch.dtype | str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str | torch.device | None = None,
    cast_inputs: torch.dtype | str | None = None,
) -> Any:
    """Decorate ``forward`` and ``setup_context`` of a ``torch.autograd.Function`` to store the autocast state.

    Args:
        fwd: The function to decorate. Omit it to write ``@custom_fwd(...)`` with arguments.
        device_type: The device whose autocast state is stored. The default is the device type of the first input that
            is on neither the CPU nor the meta device, otherwise the CPU.
        cast_inputs: The dtype of the cast inputs, or its name ("fp32"). In an enabled region, the 16- and 32-bit
            floating-point inputs on the device are cast. Forward and backward then run with autocast disabled. With
            None, the inputs and the autocast state do not change. Pass the same dtype to ``setup_context``, so that it
            saves the cast inputs. As in PyTorch, second derivatives treat the cast copy of a saved input as a constant.

    Raises:
        TypeError: If an argument or the decorated object has the wrong type, or ``cast_inputs`` is not floating-point.
        ValueError: If PyTorch has no such device or no such dtype.

    Example:
        >>> import torch, polycast
        >>> class Multiply(torch.autograd.Function):
        ...     @staticmethod
        ...     @polycast.custom_fwd
        ...     def forward(a, b):
        ...         return a.mm(b)
        ...     @staticmethod
        ...     @polycast.custom_fwd
        ...     def setup_context(ctx, inputs, output):
        ...         ctx.save_for_backward(*inputs)
        ...     @staticmethod
        ...     @polycast.custom_bwd
        ...     def backward(ctx, grad):
        ...         a, b = ctx.saved_tensors
        ...         return grad.mm(b.t()), a.t().mm(grad)
        >>> x = torch.eye(2, requires_grad=True)
        >>> with polycast.autocast("cpu"):
        ...     y = Multiply.apply(x, x)
        >>> y.sum().backward()
        >>> y.dtype, x.grad.dtype
        (torch.bfloat16, torch.float32)

    Source: ``torch.amp.custom_fwd``, which requires a device and does not work with ``setup_context``.
    """
    dtype = None if cast_inputs is None else dtype_of(cast_inputs, "cast_inputs")
    if dtype is not None and not dtype.is_floating_point:
        raise TypeError(f"cast_inputs: expected a floating-point dtype or None, got {dtype}; pass one, or omit it")
    device_type = None if device_type is None else known_device_type(device_type, "device_type")
    if fwd is None:
        return partial(_decorate_forward, device_type=device_type, cast_inputs=dtype)
    if isinstance(fwd, torch.dtype | str | torch.device):
        name = "cast_inputs" if isinstance(fwd, torch.dtype) else "device_type"
        raise TypeError(f"custom_fwd: expected a function, got {fwd!r}; write @custom_fwd({name}={fwd!r})")
    return _decorate_forward(fwd, device_type=device_type, cast_inputs=dtype)


@overload
def custom_bwd(bwd: Callable[P, R]) -> Callable[P, R]: ...
@overload
def custom_bwd(*, device_type: str | torch.device | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str | torch.device | None = None) -> Any:  # noqa: ARG001
    """Decorate ``backward`` of a ``torch.autograd.Function``, so that it runs under the autocast state of its forward.

    Args:
        bwd: The function to decorate. Omit it to write ``@custom_bwd(...)`` with an argument.
        device_type: An ignored argument, which ``torch.amp.custom_bwd`` requires. Backward uses forward's device.

    Raises:
        TypeError: If the decorated object is not callable.
        RuntimeError: If backward runs, but the function that received ``ctx`` (``forward`` or ``setup_context``) was
            not decorated with :func:`custom_fwd`.

    Example:
        >>> import torch, polycast
        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     @polycast.custom_fwd
        ...     def forward(ctx, x):
        ...         return x + x
        ...     @staticmethod
        ...     @polycast.custom_bwd
        ...     def backward(ctx, grad):
        ...         return 2 * grad
        >>> x = torch.ones(2, requires_grad=True)
        >>> with polycast.autocast("cpu"):
        ...     y = Double.apply(x)
        >>> y.sum().backward()
        >>> x.grad
        tensor([2., 2.])

    Source: ``torch.amp.custom_bwd``.
    """
    if bwd is None:
        return custom_bwd
    _check_callable("custom_bwd", bwd)
    backward = bwd

    @wraps(backward)
    def run(*args: Any, **kwargs: Any) -> Any:
        region: _Region | None = getattr(args[0], "polycast_region", None)
        if region is None:
            raise RuntimeError(
                "custom_bwd: expected a ctx with the autocast state of forward, got a ctx without it; decorate "
                "forward, and setup_context if there is one, with polycast.custom_fwd"
            )
        with StockAutocast(region.device_type, dtype=region.dtype, enabled=region.enabled):
            return scopes.run_in(region.scope, backward, *args, **kwargs)

    return run


def _decorate_forward(
    fwd: Callable[..., R], *, device_type: str | None, cast_inputs: torch.dtype | None
) -> Callable[..., R]:
    _check_callable("custom_fwd", fwd)
    # `setup_context` has the arguments (ctx, inputs, output). The output must remain the tensor that forward returned.
    eligible = 2 if getattr(fwd, "__name__", "") == "setup_context" else sys.maxsize

    @wraps(fwd)
    def run(*args: Any, **kwargs: Any) -> R:
        # The context is the first argument of `setup_context`, and of a forward without `setup_context`.
        context = args[0] if args and hasattr(args[0], "save_for_backward") else None
        of_inputs = device_type or _device_type((args, kwargs))
        enabled = torch.is_autocast_enabled(of_inputs)
        if context is not None:
            dtype = torch.get_autocast_dtype(of_inputs)
            context.polycast_region = _Region(of_inputs, enabled and cast_inputs is None, dtype, scopes.held())
        if not enabled or cast_inputs is None:
            return fwd(*args, **kwargs)
        with StockAutocast(of_inputs, enabled=False):
            inputs = _cast(args[:eligible], of_inputs, cast_inputs)
            return fwd(*inputs, *args[eligible:], **_cast(kwargs, of_inputs, cast_inputs))

    return run


def _check_callable(decorator: str, function: Any) -> None:
    if not callable(function):
        raise TypeError(f"{decorator}: expected a function, got {function!r}; use the decorator above a def")


def _tensors(value: Any) -> Iterator[torch.Tensor]:  # this function is 3x faster than PyTorch's `tree_leaves`
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, tuple, list, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(item)


def _device_type(value: Any) -> str:
    device_types = (tensor.device.type for tensor in _tensors(value))
    return next((found for found in device_types if found not in (HOST, SHAPES_ONLY)), HOST)


def _cast(value: Any, device_type: str, dtype: torch.dtype) -> Any:
    """Return a value in which tensors are cast, also in mappings, tuples and lists, as in ``torch.amp``."""
    if isinstance(value, torch.Tensor):
        eligible = value.is_floating_point() and value.itemsize in (2, 4)  # `casts.h` has the same condition
        return value.to(dtype) if eligible and value.device.type == device_type else value
    if isinstance(value, Mapping):
        return {name: _cast(item, device_type, dtype) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [_cast(item, device_type, dtype) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
