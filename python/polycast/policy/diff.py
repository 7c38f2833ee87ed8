"""Two policies, releases or devices by their names, side by side."""

import os
from collections.abc import Iterable
from pathlib import Path

from polycast import backends
from polycast._compiled import DEVICES
from polycast._suggest import suggestion
from polycast.policy.policy import Policy
from polycast.policy.releases import find, is_release, releases
from polycast.policy.sides import Side, differences, side_of, side_of_device, side_of_release

BASE = "base"


def diff(one: str, other: str, device: str | None = None) -> str:
    """Return a table of what two sides do differently, with the reasons that are known.

    Args:
        one: "base" for the policy that is compiled in, the name of a recorded release ("torch-2.11"), a file with
            rules over the base, or a device.
        other: As `one`; a device beside a device.
        device: The device to look at alone; None for all that both sides know.

    Raises:
        ValueError: There is no such side or device, or a file has problems.

    Example:
        >>> from polycast.policy.diff import diff
        >>> print(diff("torch-2.13", "torch-2.14", "cuda").partition(chr(10) * 2)[0])
        op                   device  torch-2.13  torch-2.14  why
        linalg_matrix_sqrth  cuda    absent      fp32        [1]
    """
    columns = [_column(name) for name in (one, other)]
    if None in columns and columns != [None, None]:
        name, rest = (one, other) if columns[0] else (other, one)
        raise ValueError(f"'{name}' is a device and '{rest}' is none; compare two devices, or '{rest}' with --device")
    if None not in columns and device is not None:
        raise ValueError(f"'{one}' and '{other}' are devices already; leave out --device")
    sides = [_side(name, column) for name, column in zip((one, other), columns, strict=True)]
    table = differences(*sides, device=None if device is None else _wanted(device, sides))
    found = table or f"{sides[0].title} and {sides[1].title} do the same."
    apart = [name for name in DEVICES if device is None and (name in sides[0].columns) != (name in sides[1].columns)]
    return found + (f"\nNot compared, as one has no record of it: {', '.join(apart)}." if apart else "")


def _column(name: str) -> str | None:
    """Return the device of the policy that a name means; None for a name of something else."""
    if name in DEVICES:
        return name
    return backends.device_of(name) if name in backends.device_types() else None


def _wanted(device: str, sides: Iterable[Side]) -> str:
    column = _column(device)
    if column is None:
        there_are = f"; there are {', '.join(DEVICES)}"
        raise ValueError(f"the policy has no device '{device}'{suggestion(device, DEVICES) or there_are}")
    for side in sides:
        if column not in side.columns:
            raise ValueError(f"{side.title} has no record of {column}; it has {', '.join(side.columns)}")
    return column


def _side(name: str, column: str | None) -> Side:
    if column is not None:
        return side_of_device(column)
    if name == BASE:
        return side_of(name)
    if is_release(name):
        return side_of_release(find(name))
    if not (name.endswith((".yaml", ".yml")) or os.sep in name or Path(name).exists()):
        close = suggestion(name, (BASE, *releases(), *DEVICES)) or "; those of rules end in .yaml"
        raise ValueError(f"'{name}' is neither {BASE}, a release, a device nor a file{close}")
    return side_of(name, Policy(name).rows())
