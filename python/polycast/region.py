"""polycast.autocast: torch's regions with the devices, dtypes and defaults of the policy."""

from functools import cache
from threading import Thread

import torch
from torch.amp.autocast_mode import autocast as StockAutocast  # by this name also where ours is put in its place

from polycast import devices, installation
from polycast._dtypes import dtype_of
from polycast._extension import DEVICES
from polycast._warnings import warn
from polycast.policy.policy import Policy, PolicyLike
from polycast.scope.contexts import CompiledRegion, Region
from polycast.torch_internals import constant, is_fake_mode_active


def _of_a_new_thread() -> dict[str, torch.dtype]:
    """Return the autocast dtypes of a thread in which nobody has called ``torch.set_autocast_dtype``."""
    found: dict[str, torch.dtype] = {}
    device_types = devices.device_types()
    thread = Thread(target=lambda: found.update((kind, torch.get_autocast_dtype(kind)) for kind in device_types))
    thread.start()
    thread.join()
    return found


# The dtype of each device type until a region or a user chooses another. A user may have done so before the import.
_INITIAL = _of_a_new_thread()
# They look into a table, so dynamo runs them.
dtype_of = constant(dtype_of)
tell = cache(warn)  # once for each text


def autocast(
    device_type: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
    policy: PolicyLike = None,
) -> Region:
    """Return a region in which the ops of one device run in the dtypes that the policy gives them.

    Args:
        device_type: "cuda", "cpu", "xpu", "xla", ... or a ``torch.device``, such as an XLA device. None takes the
            current accelerator of ``torch.accelerator``, else XLA if it is in use, else the CPU.
        dtype: The lower precision, one that the policy lists for the device, as a dtype or as text ("bf16"). None takes
            the dtype of the region around this one, else that of ``torch.set_autocast_dtype`` if it was called, else
            the first that the policy lists.
        enabled: False switches autocasting off inside a region.
        cache_enabled: Whether casts of weights are reused inside the region. None: unchanged.
        policy: Rules that hold in the region, over those around it: what :class:`polycast.Policy` takes. To make the
            policy once is faster than to give its dict, file, release or category each time.

    Returns:
        A ``torch.autocast``: a context manager and a decorator that nests with torch's own and in itself, and that
        torch.compile supports. :class:`polycast.Region` says where one with a policy differs from torch's. The state is
        per thread, so decorate a ``forward`` that several threads run.

    Raises:
        ValueError: The policy has no such device, or the region is enabled and cannot run in the dtype.
        PolicyError: A ``ValueError``, as for :class:`polycast.Policy`.
        TypeError: ``device_type`` is neither text nor a device, ``dtype`` neither text nor a dtype, or ``enabled`` a
            text.
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
    device_type = devices.current() if device_type is None else devices.parse_device_type(device_type)
    device = devices.device_of(device_type)
    device_type = devices.device_type_of(device)
    listed = DEVICES[device].lower_precision
    _check_switches(enabled, cache_enabled)
    compiling = torch.compiler.is_compiling()
    if enabled and not compiling:
        devices.facts_of(device_type).check_region()
        installation.follow_hardware(device)
    dtype = _lower_precision(device_type, listed, dtype, enabled)
    if compiling:
        if policy is not None:
            digest = policy.digest if isinstance(policy, Policy) else _digest_of(policy)
            return CompiledRegion(device_type, dtype, enabled, cache_enabled, digest)  # type: ignore[return-value]
        # torch.compile knows a call of torch's class, and regions that were made outside
        return StockAutocast(device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)  # type: ignore[return-value]
    made = policy if policy is None or isinstance(policy, Policy) else Policy(policy)
    region = Region(device_type, dtype, enabled, cache_enabled, made)
    if region.enabled:
        for doubt in _doubts(device_type, device, installation.changes):
            if not is_fake_mode_active():
                tell(doubt)
    return region


# The policies that compiled code made of a dict or a text. It knows them by their digests alone.
_made_in_compiled_code: dict[str, Policy] = {}


@constant
def _digest_of(policy: PolicyLike) -> str:
    made = Policy(policy)
    return _made_in_compiled_code.setdefault(made.digest, made).digest


def _check_switches(enabled: object, cache_enabled: object) -> None:
    """Raise for arguments that would be misread."""
    if isinstance(enabled, str) or isinstance(cache_enabled, str):  # "False" would be true
        name, value = ("enabled", enabled) if isinstance(enabled, str) else ("cache_enabled", cache_enabled)
        raise TypeError(f"{name} is {value!r}; it takes True or False")


def _scripted(
    device_type: str, dtype: torch.dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
) -> StockAutocast:
    return StockAutocast(device_type, dtype, enabled, cache_enabled)


# TorchScript asks for the function that it compiles in the place of a call.
autocast.__prepare_scriptable__ = lambda: _scripted  # type: ignore[attr-defined]


def _lower_precision(
    device_type: str, listed: tuple[torch.dtype, ...], dtype: torch.dtype | str | None, enabled: bool
) -> torch.dtype | None:
    """Return the dtype of an enabled region, checked; of a disabled one, that which was given."""
    if dtype is not None:
        dtype = dtype_of(dtype)
    if enabled and dtype is None:
        current = torch.get_autocast_dtype(device_type)
        chosen = torch.is_autocast_enabled(device_type) or current is not _INITIAL.get(device_type, current)
        return current if chosen and current in listed else listed[0]
    if enabled and dtype not in listed:
        names = " and ".join(map(str, listed))
        raise ValueError(
            f"autocast on {device_type} runs in {names}; {dtype} is not one of its lower precisions, and enabled=False "
            "runs without casts"
        )
    return dtype


@cache
def _doubts(device_type: str, device: str, changes: int) -> list[str]:  # noqa: ARG001
    """Return why a region cannot follow the policy. `changes` has them looked up again after kernels changed."""
    facts = devices.facts_of(device_type)
    doubts = facts.overrides()
    if device not in installation.installed() and facts.rules_are_a_guess and facts.has_own_kernels:
        doubts.append(devices.own_kernels_stay(device_type))
    elif device not in installation.installed():
        doubts.append(
            f"the policy's kernels for {device_type} are not installed, so its regions run torch's own; "
            f"call polycast.install('{device_type}')"
        )
    if not facts.is_here:
        doubts.append(
            f"torch finds no {device_type} here, so a region on {device_type} casts nothing; "
            "name the device that the tensors are on"
        )
    return doubts
