"""Questions to the policy that is compiled in. The kernels of the dispatcher are registered from the same table."""

from functools import cache

import torch

from polycast import backends
from polycast._compiled import CATEGORIES, DEVICES, ROWS, Row, scope_in_force, used_policy
from polycast._grammar.categories import UNLISTED
from polycast._suggest import suggestion
from polycast.policy import operators
from polycast.policy.listing import Listing, Resolved
from polycast.policy.operators import ops_by_public_name
from polycast.policy.policy import Policy


def devices() -> tuple[str, ...]:
    """Return the devices of the policy, in its order."""
    return tuple(DEVICES)


def categories() -> dict[str, str]:
    """Return the categories, each with a sentence about what it does."""
    return dict(CATEGORIES)


def category(op: str, device: str | torch.device) -> str:
    """Return the category of an op on a device.

    Args:
        op: The name of an ATen op, as in "conv2d", or with its overload, as in "pow.Tensor_Scalar", or a name that
            people call, whole or its last part: "torch.nn.functional.conv2d", "Conv2d". Without an overload the op's
            first listed overload decides.
        device: A device type or a column of the policy: "cuda", "xla", "xla_gpu", ...

    Returns:
        One of :func:`categories`, or "unlisted" if the device does not list the op. An unlisted op runs in the type of
        its inputs, and the ops that it runs follow their own rules.

    Raises:
        ValueError: Neither torch nor the policy knows the op, the policy has no such device, or the name runs ops of
            several categories.
        TypeError: The op is no text, or the device neither text nor a device.

    Example:
        >>> import polycast
        >>> polycast.policy.category("conv2d", device="cuda")
        'lower_precision_fp'
    """
    column = _column(device)
    first: dict[str, str] = {}
    for row in op_rows(op):
        if row.device == column:
            first.setdefault(row.op, row.category)
    if len(set(first.values())) > 1:
        parts = ", ".join(f"{name} ({category})" for name, category in first.items())
        raise ValueError(f"'{op}' runs several ops of {column}: {parts}; ask for one of them")
    return next(iter(first.values()), UNLISTED)


def op_rows(op: str) -> tuple[Row, ...]:
    """Return every row of an op, or of the ops that a public name runs.

    Args:
        op: As for :func:`category`.

    Returns:
        The rows: op, overload, device, category and note. There are none for an op that no device lists.

    Raises:
        ValueError: Neither torch nor the policy knows the op.

    Example:
        >>> import polycast
        >>> [row.category for row in polycast.policy.op_rows("relu")]
        ['lower_precision_fp']
    """
    if not isinstance(op, str):
        raise TypeError(f"the op is {op!r}; give its name, such as 'conv2d' or 'pow.Tensor_Scalar'")
    rows, targets = _rows_by_op(), operators.targets(op)
    if not targets:
        raise ValueError(
            f"'{op}' is no op, and the policy does not say which ops it runs; "
            + operators.suggest_ops("ask for those", op)
            if operators.is_public(op)
            else f"neither torch nor the policy has an op '{op}'{suggestion(op, [*rows, *ops_by_public_name()])}"
        )
    for target in targets:
        if target.overload not in (None, *operators.signatures(target.name)):
            known = [f"{row.op}.{row.overload}" for row in rows.get(operators.shown(target.name), ())]
            raise ValueError(f"torch has no overload '{op}'{suggestion(op, known)}")
    return tuple(
        row
        for target in targets
        for row in rows.get(operators.shown(target.name), ())
        if target.overload in (None, row.overload)
    )


def ops(device: str | torch.device, category: str | None = None) -> tuple[str, ...]:
    """Return the names of the ops that a device lists, in alphabetical order; of one category if it is given.

    Raises:
        ValueError: The policy has no such device or category.

    Example:
        >>> import polycast
        >>> polycast.policy.ops("xla", "promote")
        ('cat', 'index_copy', 'stack')
    """
    column = _column(device)
    if category is not None and not isinstance(category, str):
        raise TypeError(f"the category is {category!r}; give a name of {', '.join(CATEGORIES)}")
    if category is not None and category not in CATEGORIES:
        names = ", ".join(CATEGORIES)
        raise ValueError(f"no category '{category}'; there are {names}{suggestion(category, CATEGORIES)}")
    return tuple(
        sorted({row.op for row in ROWS if row.device == column and (category is None or row.category == category)})
    )


def notes(device: str | torch.device) -> dict[str, str]:
    """Return the ops of a device whose category differs from torch's own, each with the reason."""
    column = _column(device)
    return {op: row.note for op, rows in _rows_by_op().items() for row in rows if row.device == column and row.note}


def in_force() -> Policy:
    """Return the policies that hold here as one: those of the process, and of this thread's regions and modules.

    Example:
        >>> import polycast
        >>> with polycast.autocast("cpu", policy=polycast.Policy({"relu": "fp32"})):
        ...     polycast.policy.in_force()
        Policy({'relu': 'fp32'})
    """
    scope, used = scope_in_force(), used_policy()
    held = [policy for _, policy in scope.policies] if scope else []
    rules = Policy()
    for policy in reversed([*held, *([used] if used else [])]):
        rules |= Policy.of_kernels(policy)
    return rules


def resolved(policy: Policy | None = None, *, device: str | torch.device) -> Listing:
    """Return the category of every overload that the base or a policy lists on a device, and its source.

    Args:
        policy: A policy over the base; None for what is in force here, :func:`in_force`.
        device: As for :func:`category`.

    Returns:
        Rows in alphabetical order, which print as a table. The source is policy.yaml, with its note if it has one, or
        the place of the policy's rule.

    Example:
        >>> import polycast
        >>> rows = polycast.policy.resolved(polycast.Policy({"mv": "fp32"}), device="xla")
        >>> [row for row in rows if row.op in ("mm", "mv")]  # doctest: +NORMALIZE_WHITESPACE
        [Resolved(op='mm', overload='default', category='lower_precision_fp', source='policy.yaml'),
         Resolved(op='mv', overload='default', category='fp32', source='Policy: mv')]
    """
    column = _column(device)
    if not (policy is None or isinstance(policy, Policy)):
        raise TypeError(f"the policy is {policy!r:.60}; give a polycast.Policy, or None for what is in force")
    rows = [
        Resolved(row.op, row.overload, row.category, f"policy.yaml: {row.note}" if row.note else "policy.yaml")
        for row in ROWS
        if row.device == column
    ]
    held = in_force() if policy is None else policy
    rows += [Resolved(operators.shown(row.name), row.overload, row.value, row.source) for row in held.rows((column,))]
    return Listing(sorted({(row.op, row.overload): row for row in rows}.values()))


@cache
def _rows_by_op() -> dict[str, tuple[Row, ...]]:
    groups: dict[str, list[Row]] = {}
    for row in ROWS:
        groups.setdefault(row.op, []).append(row)
    return {op: tuple(groups[op]) for op in sorted(groups)}


def _column(device: str | torch.device) -> str:
    kind = backends.parse_device_type(device)
    if kind not in DEVICES and kind not in backends.device_types():
        raise backends.unknown(kind, DEVICES)
    return kind if kind in DEVICES else backends.device_of(kind)
