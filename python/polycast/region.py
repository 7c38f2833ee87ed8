"""The autocast region: torch's own context, with the devices, dtypes and defaults of the policy."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

from polycast import backends
from polycast._compiled import DEVICES
from polycast.installation import follow_hardware

P = ParamSpec("P")
R = TypeVar("R")

# What torch has for each device type until a region or a user chooses something else.
_INITIAL = {kind: torch.get_autocast_dtype(kind) for kind in backends.types()}


class Region(torch.autocast):
    """A ``torch.autocast`` that keeps nothing where it decorates a function.

    Torch's own remembers in itself what held before it was entered. Of threads that are in one decorated function at
    once, or of a function that calls itself, each would restore what another one found.
    """

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return the function, to be run in a region of its own each time."""

        @functools.wraps(function)
        def decorated(*args: P.args, **kwargs: P.kwargs) -> R:
            # One thread traces, and the tracer knows this region.
            with self if torch.compiler.is_compiling() else _alike(self):
                return function(*args, **kwargs)

        return decorated


def _alike(region: torch.autocast) -> torch.autocast:
    """Return a region that was not entered yet."""
    other = object.__new__(torch.autocast)
    other.__dict__.update(region.__dict__)
    return other


def autocast(
    device_type: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
) -> Region:
    """Open a region in which the ops of one device run in the types that the policy gives them.

    Args:
        device_type: "cuda", "cpu", "xpu", "xla", ... or a ``torch.device``, such as an XLA device. None takes the
            current accelerator: what ``torch.accelerator`` names, else XLA where torch_xla is loaded, else the CPU.
        dtype: The lower precision, one that the policy lists for the device. None takes that of the region around this
            one, else what ``torch.set_autocast_dtype`` was told unless that is what torch starts with, else the first
            that the policy lists.
        enabled: False switches autocasting off inside a region.
        cache_enabled: Whether casts of weights are reused inside the region; None keeps what holds.

    Returns:
        A ``torch.autocast``: a context manager and a decorator, which nests with torch's own and which torch.compile
        knows. The state is per thread, so decorate ``forward`` where threads run it. A function that it decorates can
        run in many threads at once, and call itself.

    Raises:
        ValueError: The policy has no such device, or, for an enabled region, does not list the dtype for it.
        TypeError: ``device_type`` is neither text nor a device, ``dtype`` no dtype, or ``enabled`` a text.
        RuntimeError: An XLA region without torch_xla.

    Example:
        >>> import torch, polycast
        >>> @polycast.autocast("cpu")
        ... def forward(x: torch.Tensor) -> torch.Tensor:
        ...     return torch.nn.functional.softmax(x @ x, dim=-1)
        >>> forward(torch.eye(2)).dtype
        torch.bfloat16

    Source: the documents of ``torch.autocast``, ``torch_xla.amp.autocast`` and ``torch.xpu.amp.autocast``.
    """
    if callable(device_type):
        raise TypeError("autocast decorates with parentheses only; write @polycast.autocast()")
    kind = backends.current() if device_type is None else backends.kind_of(device_type)
    column = backends.column(kind)
    kind = backends.type_of(column)
    listed = DEVICES[column].lower_precision
    _check_types(kind, listed, dtype, enabled=enabled, cache_enabled=cache_enabled)
    if enabled:
        if not torch.compiler.is_compiling():
            backends.check_region(kind)
            follow_hardware(column)
        if dtype is None:
            current = torch.get_autocast_dtype(kind)
            chosen = torch.is_autocast_enabled(kind) or current is not _INITIAL.get(kind, current)
            dtype = current if chosen and current in listed else listed[0]
        if dtype not in listed:
            names = " and ".join(map(str, listed))
            raise ValueError(f"autocast on {kind} runs in {names}; {dtype} is not listed for it in the policy")
    if torch.compiler.is_compiling():  # torch.compile knows a call of torch's class, and regions that were made outside
        return torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)  # type: ignore[return-value]
    return Region(kind, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def _check_types(
    kind: str, listed: tuple[torch.dtype, ...], dtype: torch.dtype | None, **switches: bool | None
) -> None:
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype is {dtype!r}; autocast on {kind} takes {' or '.join(map(str, listed))}")
    for name, value in switches.items():
        if isinstance(value, str):  # "False" would be true
            raise TypeError(f"{name} is {value!r}; it takes True or False")
