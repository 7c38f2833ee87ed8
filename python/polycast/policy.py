"""Asking the policy. The answers come from the very table that is registered with the dispatcher."""

from functools import cache

import torch

from polycast import backends
from polycast._compiled import CATEGORIES, DEVICES, ROWS, Row
from polycast._suggest import suggestion

__all__ = ["Row", "categories", "category", "devices", "notes", "op_rows", "ops"]

UNLISTED = "unlisted"


def devices() -> tuple[str, ...]:
    """Return the devices of the policy, in its order."""
    return tuple(DEVICES)


def categories() -> dict[str, str]:
    """Return each category with the sentence that says what it does."""
    return dict(CATEGORIES)


def category(op: str, device: str | torch.device) -> str:
    """Return the category of an ATen op on a device.

    Args:
        op: The op's name, as in "conv2d", or with its overload, as in "pow.Tensor_Scalar". Without an overload the
            answer is that of the op's first listed overload.
        device: A device type or a column of the policy: "cuda", "xla", "xla_gpu", ...

    Returns:
        One of :func:`categories`, or "unlisted" where another device lists the op and this one does not.

    Raises:
        ValueError: No device of the policy lists the op, or the policy has no such device.
        TypeError: The op is no text, or the device neither text nor a device.

    Example:
        >>> import polycast
        >>> polycast.policy.category("conv2d", device="cuda")
        'lower_precision_fp'
    """
    column = _column(device)
    return next((row.category for row in op_rows(op) if row.device == column), UNLISTED)


def op_rows(op: str) -> tuple[Row, ...]:
    """Return every row of an op, of one overload where the name gives it: op, overload, device, category and note.

    Raises:
        ValueError: No device of the policy lists the op.

    Example:
        >>> import polycast
        >>> [row.category for row in polycast.policy.op_rows("relu")]
        ['lower_precision_fp']
    """
    if not isinstance(op, str):
        raise TypeError(f"the op is {op!r}; give its name, such as 'conv2d' or 'pow.Tensor_Scalar'")
    name, _, overload = op.removeprefix("aten::").removeprefix("aten.").partition(".")
    rows = tuple(row for row in _rows_by_op().get(name, ()) if not overload or row.overload == overload)
    if not rows:
        known = [f"{row.op}.{row.overload}" for row in _rows_by_op().get(name, ())] or list(_rows_by_op())
        raise ValueError(f"no device of the policy lists the op '{op}'{suggestion(op, known)}")
    return rows


def ops(device: str | torch.device, category: str | None = None) -> tuple[str, ...]:
    """Return the names of the ops that a device lists, of one category where it is given, in alphabetical order.

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
    """Return the ops whose category on the device is not torch's own, each with the reason."""
    column = _column(device)
    return {op: row.note for op, rows in _rows_by_op().items() for row in rows if row.device == column and row.note}


@cache
def _rows_by_op() -> dict[str, tuple[Row, ...]]:
    groups: dict[str, list[Row]] = {}
    for row in ROWS:
        groups.setdefault(row.op, []).append(row)
    return {op: tuple(groups[op]) for op in sorted(groups)}


def _column(device: str | torch.device) -> str:
    kind = backends.kind_of(device)
    if kind not in DEVICES and kind not in backends.types():
        raise backends.unknown(kind, DEVICES)
    return kind if kind in DEVICES else backends.column(kind)
