"""What importing polycast changes, and how that is undone.

``import polycast`` calls :func:`install`. POLYCAST_INSTALL=0 in the environment prevents that, and :func:`uninstall`
undoes it: afterwards torch, its dispatcher and ``sys.meta_path`` hold what they held before.

While any device is installed, these differ from torch's own:

- kernels of ``aten`` ops on the autocast keys: they cast by the policy. A backend that has no fallback gets one.
- ``torch.utils.checkpoint.CheckpointFunction.forward``,
  ``torch.utils.checkpoint._checkpoint_without_reentrant_generator`` (since torch 2.15
  ``torch.utils.checkpoint._checkpoint_without_reentrant_generator_impl``),
  ``torch_xla.utils.checkpoint.CheckpointFunction.forward``: a rerun forward has the policies of its first run.
- ``torch.optim.optimizer._global_optimizer_post_hooks``: a hook drops the casts of the weights that a step wrote.
- ``torch._dynamo.guards.CheckFunctionManager.compile_check_fn``: compiled code guards the policies that hold.
- ``torch.compiler.config.cache_key_tag``: caches on disk tell policies and kernels apart.
- ``sys.meta_path``: a finder waits for those of these modules that are not imported yet, and for torch_xla.

Compiled code holds the casts that it was compiled with. So it does not run again after a change of the kernels.

These come with use, not with the import:

- ``torch.ops.polycast``, with the first optimizer or scaler. These operators stay, because compiled code may hold them.
- What dynamo knows of the calls that enter scopes, with the first code that is compiled under a policy. ``uninstall``
  undoes it.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Any

import torch

from polycast import cast_cache, policy
from polycast._extension import (
    BUILD,
    DEVICES,
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
    check_like,
    device_of,
    device_type_of,
    facts_of,
    own_kernels_stay,
    parse_device_type,
    served,
)
from polycast.scope import checkpoint, compiled_code, process
from polycast.scope.handle import Handle
from polycast.torch_internals import disabled

ENVIRONMENT_SWITCH = "POLYCAST_INSTALL"
_TAG = "polycast:"


class _Tag(str):
    """The installed devices, in keys of on-disk caches. A key also gets the policy in force where it is made."""

    def __reduce__(self) -> tuple[Any, ...]:
        held = policy.current()
        return str, (f"{self} {_TAG}{held.digest}" if held else str(self),)


def _mark_caches(config: Any, undo: Undo) -> None:
    """Have the keys of on-disk caches name what is installed.

    Since torch 2.13 a thread that assigns the option changes it for itself alone. So the tag becomes the default there.
    """
    option = config._config["cache_key_tag"]
    before = dict(vars(option))  # assigning the former tag would not undo that it was assigned at all
    ours = f"{_TAG}{BUILD}:{','.join(installed_kernels())}"

    override = option.user_override
    own = override.get() if isinstance(override, ContextVar) else override  # text where a user has set a tag

    def put_back() -> None:
        if not isinstance(override, ContextVar):
            if isinstance(option.user_override, _Tag):  # else a user has set another tag since
                config._is_dirty = True
                option.__dict__ = dict(before)
            return
        option.__dict__ = dict(before)
        if isinstance(override.get(), _Tag):
            override.set(own)

    undo.append(put_back)
    if not isinstance(override, ContextVar):
        config.cache_key_tag = _Tag(f"{config.cache_key_tag} {ours}".lstrip())
        return
    default = option.env_value_default
    option.env_value_default = _Tag(f"{default if isinstance(default, str) else ''} {ours}".lstrip())
    if isinstance(own, str):
        override.set(_Tag(f"{own} {ours}".lstrip()))


# Each changes a module of torch, and adds first what undoes the change.
CHANGES: dict[str, Callable[[ModuleType, Undo], None]] = {
    **dict.fromkeys(CHECKPOINTS, checkpoint.keep_policies),
    "torch.optim.optimizer": cast_cache.follow_steps,
    "torch._dynamo": compiled_code.guard_scopes,
    "torch.compiler.config": _mark_caches,
}
# How often kernels were installed or taken out.
changes = 0
# A lock for all below, the changes that are made, and the packages whose devices are installed once they are imported.
_lock = RLock()
_made: dict[str, Undo] = {}
_late: set[str] = set()
_hook = ImportHook(lambda imported: _on_import_of(imported))
# Devices with the same dispatch key, of which one can be installed at a time.
_SIBLINGS = {
    name: [other.name for other in DEVICES.values() if other.name != name and other.dispatch_key == device.dispatch_key]
    for name, device in DEVICES.items()
}


class Installation(Handle):
    """A handle that :func:`install` and :func:`uninstall` return: removing it installs what was installed before."""

    def __init__(self) -> None:
        kernels, late = installed_kernels(), set(_late)

        def restore() -> None:
            with changing():
                _restore(kernels, late)

        super().__init__(restore)

    def __repr__(self) -> str:
        return f"<installed: {', '.join(installed_kernels()) or 'nothing'}>"


def on_import() -> None:
    """Do what `import polycast` does."""
    if os.environ.get(ENVIRONMENT_SWITCH, "1").lower() not in ("0", "false", "no", "off"):
        install()
    process.use_on_import()


@disabled
def install(*devices: str | torch.device, like: str | None = None) -> Installation:
    """Register the policy's autocast kernels of the named devices on top of torch's, and what goes with them.

    Args:
        devices: Device types as in ``torch.device(...).type``, "xla" standing for the rules of the hardware that
            torch_xla runs on, and a backend outside of torch going by the name that it registered. Without any: every
            device that torch itself serves, and XLA once torch_xla is imported.
        like: The device whose rules a backend gets that policy.yaml does not list. Without it, such a backend gets
            those of cuda only if it registers no autocast kernels of its own. Otherwise they stay, with a warning.

    A device that is installed already is installed anew, on top of what was registered since. Code that was compiled
    without polycast is freed, so no other thread may run compiled code meanwhile, as for ``torch._dynamo.reset``.

    Returns:
        A handle whose ``remove()``, or whose end as a context manager, installs what was installed before.

    Raises:
        ValueError: The policy has no such device, or a device cannot have the rules of ``like``.

    Example:
        >>> import polycast
        >>> _ = polycast.install("cpu")
        >>> "cpu" in polycast.installed()
        True
    """
    types = [parse_device_type(device) for device in devices] or served()
    names = [device_of(device_type) for device_type in types]
    for device_type in types:
        check_like(device_type, like)
    change, left = Installation(), list[str]()
    with changing():
        for name in names:
            for sibling in _SIBLINGS[name]:
                uninstall_kernels(sibling)
            facts = facts_of(device_type_of(name))
            if like is None and facts.rules_are_a_guess:
                uninstall_kernels(name)  # what is registered without ours is the backend's own
                if facts.has_own_kernels:
                    left.append(facts.name)
                    continue
            install_kernels(name, facts.is_out_of_tree)
        if not devices:
            _late.update(LATE.keys() - sys.modules.keys())
    for device_type in left:
        warnings.warn(own_kernels_stay(device_type), stacklevel=2)
    return change


@disabled
def uninstall(*devices: str | torch.device) -> Installation:
    """Bring torch's own autocast kernels back, for the named devices, or for all without any.

    With the last device goes all that importing polycast changes: `help(polycast.installation)` lists it. What was
    compiled meanwhile does not run again.

    Args:
        devices: As for :func:`install`, or as :func:`installed` names them.

    Returns:
        A handle whose ``remove()``, or whose end as a context manager, installs what was installed before.

    Raises:
        ValueError: The policy has no such device.

    Example:
        >>> import polycast
        >>> with polycast.uninstall("cpu"):
        ...     "cpu" in polycast.installed()
        False
        >>> "cpu" in polycast.installed()
        True
    """
    names = [_installed_name(device) for device in devices] if devices else list(DEVICES)
    types = {device_type_of(name) for name in names}
    change = Installation()
    with changing():
        for name in names:
            uninstall_kernels(name)
        _late.difference_update(package for package, late in LATE.items() if late in types)
    return change


def _installed_name(device: str | torch.device) -> str:
    name = parse_device_type(device)
    known = name in DEVICES and name != PRIVATEUSE1
    return name if known or name in installed_kernels() else device_of(name)


def installed() -> tuple[str, ...]:
    """Return the devices of the policy whose kernels are registered, in the order of the policy."""
    return tuple(installed_kernels())


def follow_hardware(device: str) -> None:
    """Install a device of the policy in the place of its sibling, if the hardware was taken for that before.

    The runtime of a device may settle on its hardware after the import.
    """
    if any(sibling in installed_kernels() for sibling in _SIBLINGS[device]):
        install(device_type_of(device))


@contextmanager
def changing() -> Iterator[None]:
    """Have the rest of torch follow a change of the kernels."""
    for name in CHANGES:
        if _is_importing(name):
            import_module(name)  # waits for the thread that imports it
    was_guarded = compiled_code.is_guarding()
    try:
        with _lock:
            try:
                yield
            finally:
                _follow()
    finally:
        # Not under the lock: this waits for threads that compile, and these import modules.
        with compiled_code.while_nothing_compiles():
            renew_scopes()
        if not was_guarded:
            compiled_code.free()


def _restore(kernels: Sequence[str], late: set[str]) -> None:
    for name in installed_kernels():
        if name not in kernels:
            uninstall_kernels(name)
    for name in kernels:
        if name not in installed_kernels():
            install_kernels(name, facts_of(device_type_of(name)).is_out_of_tree)
    _late.clear()
    _late.update(late)


def _follow() -> None:
    """Make or undo the changes of torch, for the kernels that are registered now."""
    global changes
    with _lock:
        changes += 1
        refresh_kernels()
        _undo("torch.compiler.config")  # it names the devices
        if installed_kernels():
            for name in CHANGES:
                if not _is_importing(name):  # the hook follows
                    _change(name)
        else:
            _late.clear()
            for name in list(_made):
                _undo(name)
            compiled_code.disallow_scopes()
        _wait()


def _change(name: str) -> None:
    if name in sys.modules and name not in _made:
        CHANGES[name](sys.modules[name], _made.setdefault(name, []))


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
    """Make the change of a module, or install the devices of a package, now that it is imported."""
    name = imported.__name__
    with _lock:
        is_late = name in _late
        _late.discard(name)
        if name in CHANGES and installed_kernels():
            _change(name)
        _wait()
    if is_late:
        install(LATE[name])
