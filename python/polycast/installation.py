"""The changes that importing polycast makes to PyTorch, and their reversal.

``import polycast`` calls :func:`install`, unless the environment variable ``POLYCAST_INSTALL`` is 0, false, no or off.
:func:`uninstall` restores PyTorch, its dispatcher and ``sys.meta_path``, except for the last two changes below.

While polycast's kernels are installed for any device, these parts differ from stock PyTorch:

- the kernels of ops on autocast keys, which follow the policy. An out-of-tree backend without a fallback gets one.
- ``torch.utils.checkpoint.CheckpointFunction.forward``,
  ``torch.utils.checkpoint._checkpoint_without_reentrant_generator`` (since torch 2.15
  ``torch.utils.checkpoint._checkpoint_without_reentrant_generator_impl``),
  ``torch_xla.utils.checkpoint.CheckpointFunction.forward``: a rerun forward has the policies of its first run.
- ``torch.optim.optimizer._global_optimizer_post_hooks``: a hook frees casts after each step.
- ``torch._dynamo.guards.CheckFunctionManager.compile_check_fn``: compiled code guards on the active policies.
- ``torch._dynamo.output_graph.OutputGraph.call_user_compiler``: backward compiles without autocast under a policy, and
  the keys of on-disk caches contain the policy and the kernels.
- ``sys.meta_path``: a finder waits for the import of ``torch_xla``, and of the modules above.

Compiled code contains the casts of the kernels that it was compiled with, so a change of the kernels invalidates it.

Two changes cannot be undone, because compiled code may need them. The import registers the operators
``torch.ops.polycast``, and the first compilation that enters a scope changes how dynamo traces scopes.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from types import ModuleType

import torch

from polycast import cast_cache
from polycast._extension import (
    DEVICES,
    DEVICES_LIKE,
    install_kernels,
    installed_kernels,
    refresh_kernels,
    renew_scopes,
    uninstall_kernels,
)
from polycast._import_hook import ImportHook
from polycast._replaced import Undo
from polycast.devices import (
    CHECKPOINTS,
    LATE,
    PRIVATEUSE1,
    device_of,
    device_type_of,
    facts_of,
    own_kernels,
    parse_device_type,
    served,
)
from polycast.scope import checkpoint, compiled_code, process
from polycast.scope.handle import Handle
from polycast.torch_internals import disabled, dynamo

ENVIRONMENT_SWITCH = "POLYCAST_INSTALL"

# Each function changes a module of PyTorch or `torch_xla`, after it has added a function that undoes the change.
CHANGES: dict[str, Callable[[ModuleType, Undo], None]] = {
    **dict.fromkeys(CHECKPOINTS, checkpoint.keep_policies),
    "torch.optim.optimizer": cast_cache.follow_steps,
    "torch._dynamo": compiled_code.guard_scopes,
}
# Cached facts about the kernels are valid until this count of their changes rises.
changes = 0
# The lock guards `_made`, the active changes, and `_late`, the packages whose import will install their devices.
_lock = RLock()
_made: dict[str, Undo] = {}
_late: set[str] = set()
_hook = ImportHook(lambda imported: _on_import_of(imported))
# These are each device's siblings: devices with the same dispatch key, of which only one can be installed at a time.
_SIBLINGS = {
    name: [other.name for other in DEVICES.values() if other.name != name and other.dispatch_key == device.dispatch_key]
    for name, device in DEVICES.items()
}


def _handle() -> Handle:
    """Return a handle whose removal restores the kernels that are installed now."""
    kernels, late = installed_kernels(), set(_late)

    def restore() -> None:
        with changing():
            for name in set(installed_kernels()).difference(kernels):
                uninstall_kernels(name)
            for name in kernels:
                if name not in installed_kernels():
                    install_kernels(name, facts_of(device_type_of(name)).is_out_of_tree)
            _late.clear()
            _late.update(late)

    return Handle(restore)


def on_import() -> None:
    """Install kernels unless ``POLYCAST_INSTALL`` is off, and use the policy that ``POLYCAST_POLICY`` names."""
    if os.environ.get(ENVIRONMENT_SWITCH, "1").lower() not in ("0", "false", "no", "off"):
        install()
    process.use_on_import()


@disabled
def install(*device_types: str | torch.device, like: str | None = None) -> Handle:
    """Install polycast's autocast kernels of the given devices over PyTorch's kernels.

    Kernels that are already installed are installed again, over kernels that other packages have registered since. Code
    that was compiled without polycast is freed, as by ``torch._dynamo.reset``, so no other thread may run compiled code
    during the call. ``help(polycast.installation)`` lists the other changes.

    Args:
        device_types: Types as in ``torch.device(...).type``. "xla" selects the rules of the hardware that ``torch_xla``
            runs on. For an out-of-tree backend, pass the name that it registered. The default is every device that
            PyTorch itself supports, and XLA once ``torch_xla`` is imported.
        like: Pass "cuda" to override the autocast kernels of an out-of-tree backend that ``policy.yaml`` does not list.
            By default such kernels are not replaced, and a warning is issued. An unlisted backend without autocast
            kernels gets the rules of cuda even without ``like``.

    Returns:
        A handle: its ``remove()``, or the end of its ``with`` block, restores the kernels that were installed before.

    Raises:
        ValueError, TypeError: If a device is unknown, has the wrong type, or cannot have the rules of ``like``.

    Example:
        >>> import polycast
        >>> _ = polycast.install("cpu")
        >>> "cpu" in polycast.installed()
        True
    """
    types = [parse_device_type(device, "device_type") for device in device_types] or served()
    for device_type in types:
        device = device_of(device_type)
        if like not in (None, device, DEVICES_LIKE[device]):
            raise ValueError(
                f"like: expected '{DEVICES_LIKE[device] or device}' for {device_type}, got '{like}'; omit "
                f"like, or write the rules of {device_type} in policy.yaml"
            )
    handle, kept = _handle(), list[str]()
    with changing():
        for name in map(device_of, types):
            for sibling in _SIBLINGS[name]:
                uninstall_kernels(sibling)
            facts = facts_of(device_type_of(name))
            if name == PRIVATEUSE1 and like is None:
                uninstall_kernels(name)  # the kernels that remain are the backend's own
                if kept := own_kernels(facts.name):
                    continue
            install_kernels(name, facts.is_out_of_tree)
        if not device_types:
            _late.update(package for package, late in LATE.items() if not facts_of(late).is_here)
    for reason in kept:
        warnings.warn(reason, stacklevel=2)
    return handle


@disabled
def uninstall(*device_types: str | torch.device) -> Handle:
    """Restore PyTorch's own autocast kernels of the given devices, or of all devices.

    When no device has polycast's kernels, the other reversible changes are undone: see ``help(polycast.installation)``.
    Code that was compiled with polycast's kernels is compiled again at its next call.

    Args:
        device_types: Types as for :func:`install`, or devices as :func:`installed` returns them. A type
            means all of its devices: "xla" means xla and xla_gpu.

    Returns:
        A handle: its ``remove()``, or the end of its ``with`` block, restores the kernels that were installed before.

    Raises:
        ValueError: If the policy has no such device.

    Example:
        >>> import polycast
        >>> with polycast.uninstall("cpu"):
        ...     "cpu" in polycast.installed()
        False
        >>> "cpu" in polycast.installed()
        True
    """
    names = {_device_named(device) for device in device_types} or {*DEVICES}
    types = {device_type_of(name) for name in names}
    handle = _handle()
    with changing():
        for name in installed_kernels():
            if not names.isdisjoint((name, device_type_of(name))):
                uninstall_kernels(name)
        _late.difference_update(package for package, late in LATE.items() if late in types)
    return handle


def _device_named(device: str | torch.device) -> str:
    name = parse_device_type(device, "device_type")
    return name if name in DEVICES and name != PRIVATEUSE1 else device_of(name)


def installed() -> tuple[str, ...]:
    """Return the devices of the policy whose kernels are installed, in the order of ``policy.yaml``."""
    return tuple(installed_kernels())


def follow_hardware(device: str) -> None:
    """Install a device's kernels if the kernels of another device with the same dispatch key are installed.

    The runtime of XLA may choose its hardware after kernels were installed for other hardware.
    """
    siblings = _SIBLINGS[device]
    if siblings and not set(siblings).isdisjoint(installed_kernels()):
        install(device_type_of(device))


@contextmanager
def changing() -> Iterator[None]:
    """Return a context manager for a change of the kernels. At its end we make or undo the other changes of PyTorch."""
    for name in CHANGES:
        if _is_importing(name):
            import_module(name)  # the call waits for the thread that imports the module
    was_guarded = compiled_code.is_guarding()
    try:
        with _lock:
            try:
                yield
            finally:
                _follow()
    finally:
        # We wait for compiling threads without the lock: they may import modules, for which our hook needs the lock.
        with compiled_code.while_nothing_compiles():
            renew_scopes()
        if not was_guarded:
            dynamo().reset()


def _follow() -> None:
    """Make or undo the changes of PyTorch for the kernels that are installed now. The caller has the lock."""
    global changes
    changes += 1
    refresh_kernels()
    if installed_kernels():
        for name in CHANGES:
            if not _is_importing(name):  # The hook changes a module after its import.
                _change(name)
    else:
        _late.clear()
        for name in list(_made):
            _undo(name)
    _wait()


def _change(name: str) -> None:
    module = sys.modules.get(name)
    if module is not None and name not in _made:
        CHANGES[name](module, _made.setdefault(name, []))


def _undo(name: str) -> None:
    for put_back in reversed(_made.get(name, [])):
        put_back()
    _made.pop(name, None)


def _is_importing(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return getattr(spec, "_initializing", False)


def _wait() -> None:
    _hook.wait_for(_late | (CHANGES.keys() - _made.keys() if installed_kernels() else set()))


def _on_import_of(imported: ModuleType) -> None:
    """Make the change of a module, or install the devices of a package, after its import."""
    name = imported.__name__
    with _lock:
        is_late = name in _late
        _late.discard(name)
        if name in CHANGES and installed_kernels():
            _change(name)
        _wait()
    if is_late:
        install(LATE[name])
