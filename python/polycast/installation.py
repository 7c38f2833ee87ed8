"""Installation of the policy's kernels in torch's dispatcher, and their removal.

Whatever torch.compile has compiled holds the casts of the policy it was compiled under. So after each change of the
installed policy the compiled code of this process does not run again, and the keys of the on-disk caches are marked
with what is installed.
"""

import os
import sys
from types import ModuleType
from typing import Any

import torch
import torch.compiler.config

from polycast import backends
from polycast._compiled import BUILD, DEVICES, install_kernels, installed_kernels, uninstall_kernels
from polycast.policy.policy import Policy, PolicyError
from polycast.policy.reader import IMPORT_FIRST
from polycast.scope import scopes

ENVIRONMENT_SWITCH = "POLYCAST_INSTALL"
ENVIRONMENT_POLICY = "POLYCAST_POLICY"
_TAG = "polycast:"
# What is wrong with the policy of the environment, where `python -m polycast` is to say it.
unusable = ""
# How often kernels were installed or taken out.
changes = 0
# Columns with the same dispatch key, of which one can be installed at a time.
_SIBLINGS = {
    name: [other.name for other in DEVICES.values() if other.name != name and other.dispatch_key == device.dispatch_key]
    for name, device in DEVICES.items()
}


def install(*devices: str | torch.device) -> None:
    """Register the policy's autocast kernels of the named devices on top of torch's.

    Args:
        devices: Device types as in ``torch.device(...).type``, "xla" standing for the rules of the hardware that
            torch_xla runs on, and a backend outside of torch going by the name that it registered. Without any: every
            device that torch itself serves, and XLA where torch_xla is loaded.

    A device that is installed already is installed anew, on top of what was registered since.

    Raises:
        ValueError: the policy has no such device.

    Example:
        >>> import polycast
        >>> polycast.install("cpu")
        >>> "cpu" in polycast.installed()
        True
    """
    columns = [backends.column(backends.kind_of(device)) for device in devices or backends.served()]
    try:
        for column in columns:
            for sibling in _SIBLINGS[column]:
                uninstall_kernels(sibling)
            install_kernels(column, column in backends.ON_REQUEST)
    finally:
        _forget_compiled_code()


def uninstall(*devices: str | torch.device) -> None:
    """Bring torch's own autocast kernels back, for the named devices, or for all without any.

    Args:
        devices: As for :func:`install`, or columns as :func:`installed` names them.

    Raises:
        ValueError: the policy has no such device.

    Example:
        >>> import polycast
        >>> polycast.uninstall("cpu")
        >>> "cpu" in polycast.installed()
        False
        >>> polycast.install("cpu")
    """
    names = [_column(device) for device in devices]
    for column in names if devices else installed_kernels():
        uninstall_kernels(column)
    _forget_compiled_code()


def _column(device: str | torch.device) -> str:
    kind = backends.kind_of(device)
    known = kind in DEVICES and kind != backends.PRIVATEUSE1
    return kind if known or kind in installed_kernels() else backends.column(kind)


def installed() -> tuple[str, ...]:
    """Return the columns of the policy whose kernels are registered, in the order of the policy."""
    return tuple(installed_kernels())


def use(policy: Policy | None) -> None:
    """Make a policy that of the process: it holds in every region, under the policies of regions and modules.

    The environment variable POLYCAST_POLICY names a file whose policy is used from the import on. A forked process,
    such as a worker of a ``DataLoader``, inherits what is used; one that is spawned has that of the variable, if any.

    Args:
        policy: The rules over the base, in the place of those used before; None for the base alone.

    Raises:
        TypeError: It is no policy.
        ValueError: An operator that it names has an autocast kernel of its own.

    Example:
        >>> import torch, polycast
        >>> polycast.use(polycast.Policy({"matmul": "fp32"}))
        >>> with polycast.autocast("cpu"):
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.float32
        >>> polycast.use(None)
    """
    if not (policy is None or isinstance(policy, Policy)):
        raise TypeError(
            f"the policy is {policy!r:.60}; give a polycast.Policy, as of polycast.Policy.load, or None for the base"
        )
    if scopes.use_in_process(policy or scopes.NO_RULES):
        _forget_compiled_code()


def follow_hardware(column: str) -> None:
    """Put a column in the place of an installed sibling, which stands for what the hardware was taken for before.

    The runtime of a device may settle on its hardware after the import.
    """
    if any(sibling in installed_kernels() for sibling in _SIBLINGS[column]):
        install(backends.type_of(column))


def install_on_import() -> None:
    """Install what ``import polycast`` installs; the environment variable POLYCAST_INSTALL=0 switches it off."""
    if os.environ.get(ENVIRONMENT_SWITCH, "1").lower() in ("0", "false", "no", "off"):
        return
    install()
    for package in backends.LATE:
        if package not in sys.modules:
            backends.once_imported(package, _install_late)


def use_on_import() -> None:
    """Use the policy that the environment variable POLYCAST_POLICY names a file of.

    Raises:
        ImportError: It cannot be used. The command line, which can show what is wrong with a file, goes on without it.
    """
    global unusable
    path = os.environ.get(ENVIRONMENT_POLICY)
    if path:
        try:
            use(Policy.load(path))
        except ValueError as error:
            text = f"{ENVIRONMENT_POLICY} names {path}, which cannot be used:\n{error}"
            problems = error.problems if isinstance(error, PolicyError) else ()
            if any(problem.remedy.startswith(IMPORT_FIRST) for problem in problems):
                text += f"\n(before polycast, or unset {ENVIRONMENT_POLICY} and call polycast.use after both)"
            if not _is_command_line():
                raise ImportError(text) from None
            unusable = text


def _is_command_line() -> bool:
    """Return whether the process is `python -m polycast`, which imports the package before its __main__.

    While Python looks for the module of -m, it stands in the place of the first argument.
    """
    return sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].removeprefix("-m") == __package__


def _install_late(package: ModuleType) -> None:
    install(*backends.LATE[package.__name__])


class _Tag(str):
    """What is installed, as keys of on-disk caches hold it; each gets the policy that holds where it is made, too."""

    def __reduce__(self) -> tuple[Any, ...]:
        policy = scopes.policy_in_force()
        return str, (f"{self} {_TAG}{policy.digest}" if policy else str(self),)


def _forget_compiled_code() -> None:
    global changes
    changes += 1
    scopes.refresh()
    others = [part for part in torch.compiler.config.cache_key_tag.split() if not part.startswith(_TAG)]
    columns = installed_kernels()
    if columns:
        others.append(f"{_TAG}{BUILD}:{','.join(columns)}")
    torch.compiler.config.cache_key_tag = _Tag(" ".join(others))
    scopes.forget_compiled_code()
