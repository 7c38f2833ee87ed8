"""Questions to the built-in policy, and to the policies that apply here."""

from typing import overload

import torch

from polycast._extension import CATEGORIES, DEVICES, installed_kernels, scope_in_force
from polycast._suggest import did_you_mean
from polycast.policy.categories import canonical
from polycast.policy.op_names import Op, device_named
from polycast.policy.policy import Policy, PolicyLike
from polycast.policy.rules import BUILT_IN, Rules


def devices() -> tuple[str, ...]:
    """Return the devices of the policy, in its order."""
    return tuple(DEVICES)


def categories() -> dict[str, str]:
    """Return the categories, each with a sentence about what it does."""
    return dict(CATEGORIES)


@overload
def category(op: Op, device: None = None, *, torch: str | None = None) -> dict[str, str]: ...
@overload
def category(op: Op, device: "str | torch.device", *, torch: str | None = None) -> str: ...
def category(op: Op, device: "str | torch.device | None" = None, *, torch: str | None = None) -> str | dict[str, str]:
    """Return the category of an op in the built-in policy, or in a PyTorch release.

    :meth:`polycast.Policy.category` returns the category in another policy.

    Args:
        op: The name of an op, as in "conv2d", or with its overload, as in "pow.Tensor_Scalar", or a name that people
            call ("torch.nn.functional.conv2d", "F.conv2d", "Conv2d"), or torch's function or class itself. Without an
            overload the op's first listed overload decides.
        device: A device of the policy, or a device type: "cuda", "xla", "xla_gpu", ...; None for all devices.
        torch: A recorded PyTorch release such as "2.11". On devices without a record the built-in rules apply.

    Returns:
        One of :func:`categories`, or "unlisted" if no rule names the op there; without a device, a dict of these. An
        unlisted op is left alone; the ops that it runs follow their own rules.

    Raises:
        ValueError: There is no such op or device, or the name runs ops of several categories.
        TypeError: The op is neither a text nor a function or class of torch, or the device is none.

    Example:
        >>> import polycast, torch
        >>> polycast.policy.category("conv2d", device="cuda")
        'lower_precision_fp'
        >>> polycast.policy.category(torch.softmax)["mps"]
        'fp32'
        >>> polycast.policy.category("rms_norm", "cuda", torch="2.11")
        'unlisted'
    """
    return of_release(torch).category(op, device)


def of_release(torch: str | None) -> Policy:
    """Return the policy of a PyTorch release such as "2.11", or the built-in policy for None."""
    return Policy(None if torch is None else f"torch-{torch.removeprefix('torch-')}")


def rules(op: Op) -> Rules:
    """Return the built-in rules of an op, or of the ops that a public name runs. They print as a table.

    Args:
        op: As for :func:`category`.

    Returns:
        A tuple of rules: op, overload, device, category and note. It is empty for an op that is unlisted everywhere.

    Raises:
        ValueError: There is no such op.
        TypeError: As for :func:`category`.

    Example:
        >>> import polycast
        >>> [(rule.device, rule.category) for rule in polycast.policy.rules("relu")]
        [('xla', 'lower_precision_fp')]
    """
    return Rules(Policy().rules_on(op))


def ops(device: str | torch.device, category: str | None = None) -> tuple[str, ...]:
    """Return the names of the ops that a device lists, in alphabetical order; of one category if it is given.

    Raises:
        ValueError: The policy has no such device or category.

    Example:
        >>> import polycast
        >>> polycast.policy.ops("xla", "promote")
        ('cat', 'index_copy', 'stack')
    """
    name = device_named(device)
    if category is not None and not isinstance(category, str):
        raise TypeError(f"the category is {category!r}; give a name of {', '.join(CATEGORIES)}")
    wanted = None if category is None else canonical(category)
    if wanted is not None and wanted not in CATEGORIES:
        raise ValueError(f"unknown category '{category}'; {did_you_mean(wanted, CATEGORIES)}")
    return tuple(sorted({rule.op for rule in BUILT_IN if rule.device == name and wanted in (None, rule.category)}))


def notes(device: str | torch.device) -> dict[str, str]:
    """Return the ops of a device whose category differs from torch's own, each with the reason."""
    name = device_named(device)
    return {rule.op: rule.note for rule in BUILT_IN if rule.device == name and rule.note}


def current() -> Policy:
    """Return the policies that apply here as one: those of the process, and of this thread's regions and modules.

    It is empty where no kernels are installed.

    Example:
        >>> import polycast
        >>> with polycast.autocast("cpu", policy=polycast.Policy({"relu": "fp32"})):
        ...     polycast.policy.current()
        Policy({'relu': 'fp32'})
    """
    if not installed_kernels():
        return Policy()
    scope, joined = scope_in_force(), Policy()
    for policy in reversed(scope.policies if scope else []):
        joined |= Policy.of_kernels(policy)
    return joined


def resolved(policy: PolicyLike = None, *, device: str | torch.device) -> Rules:
    """Return the rule of every overload that the built-in policy or another lists on a device.

    Args:
        policy: What :class:`polycast.Policy` takes; None for the policies that apply here, :func:`current`.
        device: As for :func:`category`.

    Returns:
        Rules in alphabetical order, which print as a table. The source of each is policy.yaml, or the place of the
        policy's rule.

    Example:
        >>> import polycast
        >>> rules = polycast.policy.resolved({"mv": "fp32"}, device="xla")
        >>> [(rule.op, rule.category, rule.source) for rule in rules if rule.op in ("mm", "mv")]
        [('mm', 'lower_precision_fp', 'policy.yaml'), ('mv', 'fp32', 'Policy: mv')]
    """
    name = device_named(device)
    over = current() if policy is None else Policy(policy)
    found = {rule.key: rule for rule in (*BUILT_IN, *over.by_overload()) if rule.device == name}
    return Rules(found[key] for key in sorted(found))
