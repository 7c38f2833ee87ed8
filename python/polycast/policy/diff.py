"""What two policies, releases or devices do differently."""

from collections.abc import Iterable

from polycast import backends
from polycast._compiled import ALSO_CALLED, DEVICES
from polycast._suggest import did_you_mean, suggestion
from polycast.policy.categories import VALUES, canonical
from polycast.policy.differences import BUILT_IN_NAME, Side, differences, side_of
from polycast.policy.policy import Policy, is_file
from polycast.policy.releases import Release, find, is_release, releases
from polycast.policy.rules import BUILT_IN


def diff(one: str, other: str, device: str | None = None) -> str:
    """Return a table of what two sides do differently, with the reasons that are known.

    Args:
        one: "built-in" for the built-in policy, or a device, or a text that :class:`polycast.Policy` takes: a recorded
            release ("torch-2.11"), a file of rules, a category.
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
    devices = [_device(name) for name in (one, other)]
    if None in devices and devices != [None, None]:
        name, rest = (one, other) if devices[0] else (other, one)
        meant = ALSO_CALLED.get(rest.lower(), rest)
        raise ValueError(f"'{name}' is a device and '{rest}' is none{suggestion(meant, DEVICES)}")
    if None not in devices and device is not None:
        raise ValueError(f"'{one}' and '{other}' are devices already; leave out --device")
    sides = [_side(name, held) for name, held in zip((one, other), devices, strict=True)]
    table = differences(*sides, device=None if device is None else _wanted(device, sides))
    found = table or f"{sides[0].title} and {sides[1].title} do the same."
    apart = [name for name in DEVICES if device is None and (name in sides[0].devices) != (name in sides[1].devices)]
    return found + (f"\nNot compared, as one has no record of it: {', '.join(apart)}." if apart else "")


def _device(name: str) -> str | None:
    """Return the device of the policy that a name means; None for a name of something else."""
    if name in DEVICES:
        return name
    return backends.device_of(name) if name in backends.device_types() else None


def _wanted(name: str, sides: Iterable[Side]) -> str:
    device = _device(name)
    if device is None:
        meant = ALSO_CALLED.get(name.lower(), name)
        raise ValueError(f"unknown device '{name}'; {did_you_mean(meant, DEVICES)}")
    for side in sides:
        if device not in side.devices:
            raise ValueError(f"{side.title} has no record of {device}; it has {', '.join(side.devices)}")
    return device


def _side(name: str, device: str | None) -> Side:
    if device is not None:
        return _side_of_device(device)
    if name == BUILT_IN_NAME:
        return side_of(name)
    if is_release(name):
        return _side_of_release(find(name))
    if canonical(name) not in VALUES and not is_file(name):
        meant = ALSO_CALLED.get(name.lower(), name)
        close = suggestion(meant, (BUILT_IN_NAME, *releases(), *DEVICES)) or "; files of rules end in .yaml"
        raise ValueError(f"'{name}' is neither {BUILT_IN_NAME}, a release, a device nor a file{close}")
    return side_of(name, Policy(name).by_overload())


def _side_of_release(release: Release) -> Side:
    """Return the side of a release as it was recorded, which may have ops that the torch that runs lacks."""
    return Side(release.name, release.devices, {}, {}, release)


def _side_of_device(device: str) -> Side:
    """Return the side of a device, to be compared with another device."""
    held = {(rule.op, rule.overload, ""): rule for rule in BUILT_IN if rule.device == device}
    reasons = {key: rule.note for key, rule in held.items() if rule.note}
    return Side(device, ("",), {key: rule.category for key, rule in held.items()}, reasons)
