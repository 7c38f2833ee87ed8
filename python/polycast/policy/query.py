"""Queries of the built-in policy and of the active policies."""

from typing import overload

import torch

from polycast._extension import CATEGORIES, DEVICES, installed_kernels, scope_in_force
from polycast.policy.op_names import Op, device_named
from polycast.policy.policy import Policy, PolicyLike
from polycast.policy.rules import BUILT_IN, Rules


def devices() -> tuple[str, ...]:
    """Return the devices of the built-in policy, in the order of ``policy.yaml``.

    Example:
        >>> import polycast
        >>> polycast.policy.devices()[:3]
        ('cuda', 'xla', 'xla_gpu')
    """
    return tuple(DEVICES)


def categories() -> dict[str, str]:
    """Return the categories, each with a sentence that describes it.

    Example:
        >>> import polycast
        >>> polycast.policy.categories()["fp32"]
        'Casts every floating-point input to float32.'
    """
    return dict(CATEGORIES)


@overload
def category(op: Op, device: None = None, *, torch: str | None = None) -> dict[str, str]: ...
@overload
def category(op: Op, device: "str | torch.device", *, torch: str | None = None) -> str: ...
def category(op: Op, device: "str | torch.device | None" = None, *, torch: str | None = None) -> str | dict[str, str]:
    """Return the category of an op in the built-in policy, or in a PyTorch release.

    :meth:`polycast.Policy.category` returns the category in another policy.

    Args:
        op: The name of an op ("conv2d") or overload ("pow.Tensor_Scalar"), or a public name that runs the op
            ("torch.nn.functional.conv2d", "F.conv2d", "Conv2d"), or PyTorch's function or class itself. Without an
            overload, the result is the category of the first overload that the policy lists.
        device: A device of the policy or a device type, as in "cuda", "xla" or "xla_gpu"; None for all devices.
        torch: A recorded PyTorch release, as in "2.11"; None for the built-in policy. For a device that was not
            recorded, the built-in rules apply.

    Returns:
        One of :func:`categories`, or "unlisted" if the op has no rule on the device. Without a device, a dict of the
        categories by device. Autocast leaves an unlisted op alone; the ops that it runs follow their own rules.

    Raises:
        ValueError: If the op, the device or the release is unknown, or the name runs ops of several categories.
        TypeError: If the op is neither a str nor a function or class of PyTorch. If the device or the release has the
            wrong type.

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
    if not isinstance(torch, str | None):
        raise TypeError(f"torch: expected the name of a PyTorch release, got {torch!r:.60}; pass a str such as '2.11'")
    return Policy(None if torch is None else f"torch-{torch.removeprefix('torch-')}")


def rules(op: Op) -> Rules:
    """Return the built-in rules of an op, or of the ops that a public name runs. The tuple prints as a table.

    Args:
        op: The op, as for :func:`category`.

    Returns:
        A tuple of rules, each with op, overload, device, category, note and source. The tuple is empty for an op that
        is unlisted on all devices.

    Raises:
        ValueError: If the op is unknown.
        TypeError: If the op is neither a str nor a function or class of PyTorch.

    Example:
        >>> import polycast
        >>> [(rule.device, rule.category) for rule in polycast.policy.rules("relu")]
        [('xla', 'lower_precision_fp')]
    """
    return Rules(Policy().rules_on(op))


def current() -> Policy:
    """Return the merged policies of the process and of the regions and modules that this thread is in.

    The result is empty if no kernels are installed.

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
    """Return the rules of a device under a policy: the policy's, and the built-in rules that it does not override.

    Args:
        policy: The policy, in any form that :class:`polycast.Policy` accepts; None for :func:`current`.
        device: The device, as for :func:`category`.

    Returns:
        The rules in alphabetical order, which print as a table. The source of a rule is "policy.yaml", its keys in
        the policy, or a release.

    Raises:
        ValueError: If the device is unknown, or :class:`polycast.Policy` raises it.
        TypeError: If the device has the wrong type, or :class:`polycast.Policy` raises it.

    Example:
        >>> import polycast
        >>> rules = polycast.policy.resolved({"mv": "fp32"}, device="xla")
        >>> [(rule.op, rule.category, rule.source) for rule in rules if rule.op in ("mm", "mv")]
        [('mm', 'lower_precision_fp', 'policy.yaml'), ('mv', 'fp32', 'Policy: mv')]
    """
    name = device_named(device)
    over = current() if policy is None else Policy(policy)
    found = {rule.key: rule for rule in (*BUILT_IN, *over.by_overload()) if rule.device == name}
    return Rules(sorted(found.values()))
