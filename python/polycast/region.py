"""polycast.autocast: torch's regions with the devices, dtypes and defaults of the policy."""

import warnings
from functools import cache
from typing import Any, overload

import torch
from torch.amp.autocast_mode import autocast as StockAutocast  # by this name also where ours is put in its place

from polycast import backends, installation
from polycast._compiled import DEVICES
from polycast.policy.policy import Policy
from polycast.scope.contexts import CompiledRegion, PolicyRegion, Region

# The dtype of each device type until a region or a user chooses another.
_INITIAL = {kind: torch.get_autocast_dtype(kind) for kind in backends.device_types()}


@overload
def autocast(
    device_type: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
    policy: None = None,
) -> Region: ...
@overload
def autocast(
    device_type: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
    *,
    policy: Policy,
) -> PolicyRegion: ...


def autocast(
    device_type: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
    policy: Policy | None = None,
) -> Region | PolicyRegion:
    """Return a region in which the ops of one device run in the types that the policy gives them.

    Args:
        device_type: "cuda", "cpu", "xpu", "xla", ... or a ``torch.device``, such as an XLA device. None takes the
            current accelerator of ``torch.accelerator``, else XLA if it is in use, else the CPU.
        dtype: The lower precision, one that the policy lists for the device. None takes the dtype of the region around
            this one, else that of ``torch.set_autocast_dtype`` if it was called, else the first that the policy lists.
        enabled: False switches autocasting off inside a region.
        cache_enabled: Whether casts of weights are reused inside the region. None: unchanged.
        policy: Rules that hold in the region, over those around it.

    Returns:
        A ``torch.autocast``: a context manager and a decorator that nests with torch's own and in itself, and that
        torch.compile supports. With a policy it is an object with the same uses. The state is per thread, so decorate a
        ``forward`` that several threads run.

    Raises:
        ValueError: The policy has no such device, or the region is enabled and the policy does not list its dtype.
        TypeError: ``device_type`` is neither text nor a device, ``dtype`` no dtype, or ``enabled`` a text.
        RuntimeError: The region is for XLA and torch_xla is not imported, or no device is given while torch_xla is
            imported and not in use.

    Warns once if a region cannot follow the policy: its kernels are not installed, torch finds no such device, or a
    variable such as XLA_USE_BF16 overrides it.

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
    kind = backends.current() if device_type is None else backends.parse_device_type(device_type)
    column = backends.device_of(kind)
    kind = backends.device_type_of(column)
    listed = DEVICES[column].lower_precision
    _check(enabled, cache_enabled, policy)
    compiling = torch.compiler.is_compiling()
    if enabled and not compiling:
        backends.check_region(kind)
        installation.follow_hardware(column)
    dtype = _lower_precision(kind, listed, dtype, enabled)
    if policy is not None:
        if compiling:
            return CompiledRegion(kind, dtype, enabled, cache_enabled, policy.digest)  # type: ignore[return-value]
        region: Region | PolicyRegion = PolicyRegion(kind, dtype, enabled, cache_enabled, policy)
    elif compiling:  # torch.compile knows a call of torch's class, and regions that were made outside
        return StockAutocast(kind, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)  # type: ignore[return-value]
    else:
        region = Region(kind, dtype, enabled, cache_enabled)
    if region._enabled:
        for doubt in _doubts(kind, column, installation.changes):
            if torch._guards.active_fake_mode() is None:
                tell(doubt)
    return region


def _check(enabled: object, cache_enabled: object, policy: object) -> None:
    """Raise for arguments that would be misread, or fail later."""
    if isinstance(enabled, str) or isinstance(cache_enabled, str):  # "False" would be true
        name, value = ("enabled", enabled) if isinstance(enabled, str) else ("cache_enabled", cache_enabled)
        raise TypeError(f"{name} is {value!r}; it takes True or False")
    if not (policy is None or isinstance(policy, Policy)):
        raise TypeError(
            f"policy is {policy!r:.60}; give a polycast.Policy, as of Policy({{'mm': 'fp32'}}) or Policy.load"
        )


def _scripted(
    device_type: str, dtype: torch.dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
) -> StockAutocast:
    return StockAutocast(device_type, dtype, enabled, cache_enabled)


# TorchScript looks here for the function that it compiles instead of a call. A constant argument chooses one of two.
_in_a_script: dict[str, Any] = {"arg_name": "enabled", "index": 2, "default": True}
torch._jit_internal.boolean_dispatched[autocast] = _in_a_script | {"if_true": _scripted, "if_false": _scripted}


def _lower_precision(
    kind: str, listed: tuple[torch.dtype, ...], dtype: torch.dtype | None, enabled: bool
) -> torch.dtype | None:
    """Return the dtype of an enabled region, checked; of a disabled one, the argument."""
    if not (dtype is None or isinstance(dtype, torch.dtype)):
        raise TypeError(f"dtype is {dtype!r}; autocast on {kind} takes {' or '.join(map(str, listed))}")
    if enabled and dtype is None:
        current = torch.get_autocast_dtype(kind)
        chosen = torch.is_autocast_enabled(kind) or current is not _INITIAL.get(kind, current)
        return current if chosen and current in listed else listed[0]
    if enabled and dtype not in listed:
        names = " and ".join(map(str, listed))
        raise ValueError(f"autocast on {kind} runs in {names}; {dtype} is not listed for it in the policy")
    return dtype


@cache
def _doubts(kind: str, column: str, changes: int) -> list[str]:  # noqa: ARG001
    """Return why a region cannot follow the policy. `changes` has them looked up again after kernels changed."""
    doubts = backends.overrides(kind)
    if column not in installation.installed():
        doubts.append(
            f"the policy's kernels for {kind} are not installed, so its regions run torch's own; "
            f"call polycast.install('{kind}')"
        )
    if not backends.is_here(kind):
        doubts.append(
            f"torch finds no {kind} here, so a region on {kind} casts nothing; name the device that the tensors are on"
        )
    return doubts


@cache
def tell(text: str) -> None:
    """Warn the caller of autocast; once for each text."""
    warnings.warn(text, stacklevel=3)
