"""Autocast regions with the devices, dtypes and defaults of the policy: ``polycast.autocast``."""

from functools import cache
from threading import Thread

import torch
from torch.amp.autocast_mode import autocast as StockAutocast  # `torch.autocast` may have been replaced

from polycast import devices, installation
from polycast._dtypes import dtype_of
from polycast._extension import DEVICES
from polycast._warnings import warn
from polycast.policy.policy import Policy, PolicyLike
from polycast.scope.contexts import CompiledRegion, Region
from polycast.torch_internals import constant, is_fake_mode_active


def _of_a_new_thread() -> dict[str, torch.dtype]:
    """Return the autocast dtypes of a new thread, in which ``torch.set_autocast_dtype`` has not been called."""
    found: dict[str, torch.dtype] = {}
    device_types = devices.device_types()
    thread = Thread(target=lambda: found.update((kind, torch.get_autocast_dtype(kind)) for kind in device_types))
    thread.start()
    thread.join()
    return found


# These are PyTorch's default dtypes. A new thread has them, even if the user set others before the import.
_INITIAL = _of_a_new_thread()
# Dynamo cannot trace the lookup of a dtype's name, so dynamo runs this function while it traces.
dtype_of = constant(dtype_of)
warn_once = cache(warn)  # each message is issued once


def autocast(
    device_type: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
    policy: PolicyLike = None,
) -> Region:
    """Return an autocast region, in which the policy sets the dtypes of the ops on one device.

    Args:
        device_type: "cuda", "cpu", "xpu", "xla", ... or a ``torch.device``, such as an XLA device. The default is the
            current accelerator of ``torch.accelerator``, otherwise XLA if it is in use, otherwise the CPU.
        dtype: The lower precision: a dtype that the policy lists for the device, or its name ("bf16"). The default is
            the dtype of the region around this call, or of ``torch.set_autocast_dtype``. Without either, or if the
            policy does not list this dtype, the default is the first dtype that the policy lists.
        enabled: Whether autocast is enabled in the region.
        cache_enabled: Whether casts of weights are reused inside the region. The default is the current setting.
        policy: Rules of the region, in any form that :class:`polycast.Policy` accepts. They override rules of outer
            regions and of the process, but not of modules. Forms other than a ``Policy`` are parsed at each call.

    Returns:
        A ``torch.autocast``, which is a context manager and a decorator. It can be nested, including inside
        ``torch.autocast``, and ``torch.compile`` supports it. :class:`polycast.Region` lists the limits of a region
        with a policy. Autocast applies to one thread, so decorate a ``forward`` that several threads run.

    Raises:
        ValueError: If the policy has no such device, or PyTorch no such dtype. If the policy does not list the dtype of
            an enabled region. If :class:`polycast.Policy` raises it, which may be a ``PolicyError``.
        TypeError: If ``device_type``, ``dtype`` or ``policy`` has the wrong type.
        RuntimeError: If an enabled region is for XLA and ``torch_xla`` is not imported. If no device is given, no
            accelerator is found, and ``torch_xla`` is imported but not in use.

    An enabled region that cannot follow the policy issues a warning, once for each reason. The reasons are: kernels
    that are not installed, no such device, and variables such as ``XLA_USE_BF16`` that override the policy.

    Example:
        >>> import torch, polycast
        >>> @polycast.autocast("cpu")
        ... def forward(x: torch.Tensor) -> torch.Tensor:
        ...     return torch.nn.functional.softmax(x @ x, dim=-1)
        >>> forward(torch.eye(2)).dtype
        torch.bfloat16

    Source: the documentation of ``torch.autocast``, ``torch_xla.amp.autocast`` and ``torch.xpu.amp.autocast``.
    """
    device_type = devices.current() if device_type is None else devices.parse_device_type(device_type, "device_type")
    facts = devices.facts_of(device_type)
    device, device_type = facts.rules, facts.name
    listed = DEVICES[device].lower_precision
    compiling = torch.compiler.is_compiling()
    if enabled and not compiling:
        facts.check_region()
        installation.follow_hardware(device)
    dtype = _lower_precision(device_type, listed, dtype, enabled)
    if compiling:
        if policy is not None:
            digest = policy.digest if isinstance(policy, Policy) else _digest_of(policy)
            return CompiledRegion(device_type, dtype, enabled, cache_enabled, digest)  # type: ignore[return-value]
        # `torch.compile` cannot trace a `Region` that compiled code makes, but it can trace PyTorch's class.
        return StockAutocast(device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)  # type: ignore[return-value]
    region = Region(device_type, dtype, enabled, cache_enabled, policy)
    if region._enabled:
        for doubt in _doubts(device_type, device, installation.changes):
            if not is_fake_mode_active():
                warn_once(doubt)
    return region


# Compiled code stores only the digest of a policy that it makes from a dict or a string. This dict stores the policy.
_made_in_compiled_code: dict[str, Policy] = {}


@constant
def _digest_of(policy: PolicyLike) -> str:
    made = Policy(policy)
    return _made_in_compiled_code.setdefault(made.digest, made).digest


def _scripted(
    device_type: str, dtype: torch.dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
) -> StockAutocast:
    return StockAutocast(device_type, dtype, enabled, cache_enabled)


# TorchScript calls this attribute to get the function that it compiles.
autocast.__prepare_scriptable__ = lambda: _scripted  # type: ignore[attr-defined]


def _lower_precision(
    device_type: str, listed: tuple[torch.dtype, ...], dtype: torch.dtype | str | None, enabled: bool
) -> torch.dtype | None:
    """Return the dtype of a region. Raise a ``ValueError`` if the region is enabled and the policy lacks the dtype."""
    if dtype is not None and dtype not in listed:
        dtype = dtype_of(dtype)
    if enabled and dtype is None:
        current = torch.get_autocast_dtype(device_type)
        if current is listed[0]:
            return current
        chosen = torch.is_autocast_enabled(device_type) or current is not _INITIAL.get(device_type, current)
        return current if chosen and current in listed else listed[0]
    if enabled and dtype not in listed:
        names = " or ".join(map(str, listed))
        raise ValueError(
            f"dtype: expected {names} for autocast on {device_type}, got {dtype}; pass enabled=False to cast nothing"
        )
    return dtype


@cache
def _doubts(device_type: str, device: str, changes: int) -> list[str]:  # noqa: ARG001
    """Return the reasons why a region cannot follow the policy. The cached result is valid until ``changes`` rises."""
    facts = devices.facts_of(device_type)
    doubts = facts.overrides()
    if device not in installation.installed():
        doubts += devices.own_kernels(device_type) or [
            f"the policy's kernels for {device_type} are not installed, so regions on {device_type} run PyTorch's "
            f"kernels; call polycast.install('{device_type}')"
        ]
    if not facts.is_here:
        doubts.append(
            f"no {device_type} device is available, so autocast('{device_type}') has no effect; pass the device type "
            "of your tensors"
        )
    return doubts
