"""The signatures of ATen's overloads in the recorded releases of torch."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from polycast._grammar.categories import FUNCTIONAL, VIEW, Signature
from polycast._grammar.versions import ALL, Version, VersionRange, parse_range
from polycast.policy import operators
from polycast.policy.operators import LISTED, Signatures

RECORDED = Path(__file__).parent / "recorded" / "schemas.txt"
# The letter of each variant in the file.
LETTERS = {"functional": "f", VIEW: "v", "out": "o", "inplace": "i", "mutable": "m"}
_VARIANTS = {letter: variant for variant, letter in LETTERS.items()}
# An overload in the file: its variant, its tensors, whether it takes an optional dtype, and the releases that have it.
_OVERLOAD = re.compile(r"(?P<overload>\w+):(?P<variant>[a-z])(?P<tensors>\d?)(?P<dtype>d?)(?P<torch>\S*)", re.ASCII)


class Recorded(NamedTuple):
    """An overload, and the releases of torch that have it with one signature."""

    overload: str
    signature: Signature
    torch: VersionRange


@cache
def recorded() -> dict[str, list[Recorded]]:
    """Return the overloads of each op of ATen in the releases that were recorded."""
    found = {}
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            op, *overloads = line.split()
            found[op] = [_read(op, overload) for overload in overloads]
    return found


def signatures_in(release: Version) -> Signatures:
    """Return what a recorded release of torch says of an op.

    An operator of another library, and one of ATen that is registered by hand, is as in the torch that runs.
    """

    def signatures(op: str) -> dict[str, Signature]:
        if op not in recorded():
            return operators.signatures(op)
        return {overload: signature for overload, signature, torch in recorded()[op] if release in torch}

    return signatures


def versions_with(op: str, overload: str | None) -> VersionRange | None:
    """Return the range of releases that have an op or overload; None if all have it, or none.

    Example:
        >>> from polycast.policy.schemas import versions_with
        >>> str(versions_with("cholesky", None)), versions_with("softmax", "int")
        ('<2.14', None)
    """
    ranges = [one.torch for one in recorded().get(op, ()) if overload in (None, one.overload)]
    if not ranges:
        return None
    first, *others = ranges
    for other in others:
        first |= other
    return None if first == ALL else first


def _read(op: str, text: str) -> Recorded:
    match = _OVERLOAD.fullmatch(text)
    torch = (parse_range(match["torch"]) if match["torch"] else ALL) if match else None
    assert match is not None and torch is not None, text  # tools/history writes the file
    variant = _VARIANTS[match["variant"]]
    variant = FUNCTIONAL if variant == VIEW and op in LISTED else variant
    return Recorded(
        match["overload"], Signature(variant, (), int(match["tensors"] or 0), bool(match["dtype"]), False), torch
    )
