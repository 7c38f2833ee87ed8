"""What two policies or releases do differently."""

from polycast._extension import DEVICES
from polycast._suggest import suggestion
from polycast.policy.categories import VALUES, canonical
from polycast.policy.differences import BUILT_IN_NAME, Side, differences, side_of
from polycast.policy.op_names import device_named
from polycast.policy.policy import Policy, is_file
from polycast.policy.releases import find, is_release, releases


def diff(one: str, other: str, device: str | None = None) -> str:
    """Return a table of what two sides do differently, with the reasons that are known.

    Args:
        one: "built-in" for the built-in policy, or whatever text :class:`polycast.Policy` accepts: a recorded release
            ("torch-2.11"), a policy file, a category.
        other: As `one`.
        device: The only device to compare; None for all that both sides know.

    Raises:
        ValueError: If there is no such side or device, or a file has problems.

    Example:
        >>> from polycast.policy.diff import diff
        >>> print(diff("torch-2.13", "torch-2.14", "cuda").partition(chr(10) * 2)[0])
        op                   device  torch-2.13  torch-2.14  why
        linalg_matrix_sqrth  cuda    absent      fp32        [1]
    """
    sides = [_side(name) for name in (one, other)]
    wanted = None if device is None else device_named(device)
    for side in sides:
        if wanted is not None and wanted not in side.devices:
            raise ValueError(f"{side.title} has no record of {wanted}; it has {', '.join(side.devices)}")
    table = differences(*sides, device=wanted) or f"{sides[0].title} and {sides[1].title} do the same."
    apart = [name for name in DEVICES if (name in sides[0].devices) != (name in sides[1].devices)]
    return table + (f"\nNot compared, as one has no record of it: {', '.join(apart)}." if apart and not wanted else "")


def _side(name: str) -> Side:
    if name == BUILT_IN_NAME:
        return side_of(name)
    if is_release(name):  # as it was recorded: it may have ops that the installed PyTorch lacks
        release = find(name)
        return Side(release.name, release.devices, {}, {}, release)
    if canonical(name) not in VALUES and not is_file(name):
        close = suggestion(name, (BUILT_IN_NAME, *releases())) or "; policy files end in .yaml"
        raise ValueError(f"'{name}' is not {BUILT_IN_NAME}, a release, a category or a policy file{close}")
    return side_of(name, Policy(name).by_overload())
